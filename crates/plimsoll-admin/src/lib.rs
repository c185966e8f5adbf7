#![doc = include_str!("../README.md")]

mod accept;
mod decision;
mod drain;
mod metrics;
mod page;
mod port;
mod problem;
mod prometheus;
mod question;
mod reload;
mod secret;
#[cfg(feature = "redis")]
mod store_metrics;
mod streams;
pub mod systemd;

pub use accept::{Age, Answers, Arriving, HttpPort};
pub use decision::{Said, decided, limit, millis};
pub use drain::{Begin, Drain, Place, Places};
pub use port::{Admin, Program};
pub use problem::Problem;
pub use prometheus::{escaped, family};
pub use question::{Asked, Question};
pub use reload::{Hangup, Reloads};
pub use secret::is_same;
