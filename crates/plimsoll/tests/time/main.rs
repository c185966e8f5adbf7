//! Clocks, and runtimes that have their own. One program: each file in `tests/` would be linked by itself.

mod clock_panics;
mod clocks;
mod tokio_clock;
mod tokio_runtime;
mod tokio_time;
