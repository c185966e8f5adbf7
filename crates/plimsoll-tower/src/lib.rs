//! Limits for tower services: axum, hyper, tonic, clients.

pub mod admit;
pub mod classify;
mod error;
mod future;
mod layer;
mod service;

pub use error::LimitError;
pub use future::LimitFuture;
pub use layer::LimitLayer;
pub use service::Limit;
