//! The simulator, from outside. One program: each file in `tests/` would be linked by itself.

#[path = "../support/mod.rs"]
mod support;
#[path = "../../../plimsoll-config/tests/language/valid.rs"]
mod valid;

mod access_log;
mod bad_files;
mod failures;
mod fleets;
mod limiter;
mod queueing_theory;
mod reports;
mod same_traffic;
mod schema;
mod servers;
mod stations;
mod test_bed;
mod traffic;
