//! Limits for tower services: axum, hyper, tonic, clients.

pub mod admit;
pub mod answer;
pub mod classify;
mod error;
mod future;
mod head;
pub mod keys;
mod layer;
mod priority;
mod service;

pub use error::LimitError;
pub use future::LimitFuture;
pub use head::Head;
pub use keys::KeyFrom;
pub use layer::LimitLayer;
pub use priority::{PriorityFrom, PriorityHeader, priority_from};
pub use service::Limit;
