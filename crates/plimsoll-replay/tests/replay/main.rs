//! Logs and replays. One program: each file in `tests/` would be linked by itself.

mod drawn;
mod formats;
mod model;
mod never_panics;
mod output;
mod reading;
mod running;
mod support;
