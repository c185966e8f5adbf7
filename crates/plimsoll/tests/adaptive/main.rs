//! Limits that find themselves: what an algorithm is told, and what its answers do.

#[path = "../poll/mod.rs"]
mod poll;
mod random;
mod resizing;
mod samples;
mod scripted;
mod settings;
#[path = "../waiter/mod.rs"]
mod waiter;

use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
