//! Files of scenarios: how they are read, run and reported.

mod bad_files;
mod never_panics;
#[cfg(feature = "config")]
mod requests;
mod running;
mod schema;
#[path = "../../../plimsoll-config/tests/language/valid.rs"]
mod valid;
mod vectors;
