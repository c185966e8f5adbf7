//! Several limits at once, and limits in parts. One program: each file in `tests/` would be linked by itself.

#[path = "../poll/mod.rs"]
mod poll;
#[path = "../rules/mod.rs"]
mod rules;
#[path = "../waiter/mod.rs"]
mod waiter;

mod ages;
mod all;
mod all_events;
mod all_waiting;
mod batched;
mod gates;
mod no_trace;
mod partitions;
mod same_limiter;
mod together_keys;
mod together_keys_random;
mod together_random;
mod together_waiting;
