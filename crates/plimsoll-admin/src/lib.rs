#![doc = include_str!("../README.md")]

mod accept;
mod decision;
mod drain;
mod handler;
mod http1;
mod metrics;
mod page;
mod port;
mod problem;
mod prometheus;
mod reload;
mod request;
mod secret;
#[cfg(feature = "redis")]
mod store_metrics;
mod streams;
pub mod systemd;

pub use accept::{Age, HttpPort};
pub use decision::{LimitAnswer, decision_json, limit_json, millis};
pub use drain::{Begin, Drain, Place, Places};
pub use handler::{BufferedRequest, Handler, TimedBody};
pub use port::{Admin, Program};
pub use problem::Problem;
pub use prometheus::{escaped, family};
pub use reload::{Hangup, Reloads};
pub use request::{DecisionRequest, PreparedDecision};
pub use secret::constant_time_eq;
