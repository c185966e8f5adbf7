//! Limits for services that speak HTTP, which answer for themselves.

mod answering;
mod body;
mod future;
mod held;
mod holding;
mod layer;
mod limit;
mod limits;
mod once;
mod outcome;
mod service;
mod settle;
mod shared;
mod whose;

pub use answering::{Refused, Told};
pub use body::LimitBody;
pub use future::ResponseFuture;
pub use layer::HttpLimitLayer;
pub use limit::RequestLimit;
pub use limits::Limits;
pub use outcome::outcome_of;
pub use service::HttpLimit;
pub use settle::{ResponseHead, Usage};
pub use whose::{ByKey, ByKeyLater, Everyone, WithoutKey};
