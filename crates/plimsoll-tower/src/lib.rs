//! Limits for tower services: axum, hyper, tonic, clients.

pub mod answer;
mod head;
pub mod keys;
mod priority;

pub use head::Head;
pub use keys::KeyFrom;
pub use priority::{PriorityFrom, PriorityHeader, priority_from};
