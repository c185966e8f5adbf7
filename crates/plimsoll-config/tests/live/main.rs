//! Limits that were built from a file: the same as those of the rules, in memory and in Redis, and what a new file changes.

mod changes;
mod files;
mod held;
mod kinds;
mod live_change;
mod partitions;
mod policies;
mod reload_random;
mod removed;
mod same_as_rules;
mod saved;
#[cfg(feature = "redis")]
mod stores;
mod two_keys;
mod watched_file;
