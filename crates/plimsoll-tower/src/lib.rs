#![doc = include_str!("../README.md")]

pub mod admit;
pub mod answer;
pub mod classify;
mod error;
mod future;
mod head;
mod http;
pub mod keys;
mod layer;
mod priority;
mod service;

pub use self::http::{
    ByKey, ByKeyLater, Everyone, HttpLimit, HttpLimitLayer, LimitBody, Limits, Refused,
    RequestLimit, ResponseFuture, ResponseHead, Told, Usage, WithoutKey, outcome_of,
};
pub use error::LimitError;
pub use future::LimitFuture;
pub use head::Head;
pub use keys::KeyFrom;
pub use layer::LimitLayer;
pub use priority::{PriorityFrom, PriorityHeader, priority_from};
pub use service::Limit;
