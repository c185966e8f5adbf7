#![doc = include_str!("../README.md")]

pub mod admit;
pub mod answer;
pub mod classify;
pub mod declare;
mod endpoint;
mod error;
mod future;
mod granted;
mod head;
mod http;
#[cfg(feature = "json")]
pub mod json;
pub mod keys;
mod layer;
mod leases;
#[cfg(feature = "metrics")]
mod observe;
pub mod partner;
mod priority;
mod refusals;
mod service;
pub mod shedding;
pub mod weights;

#[doc(hidden)]
pub use self::http::internals;
pub use self::http::{
    BodyCost, ByKey, ByKeyLater, Everyone, HttpLimit, HttpLimitLayer, LimitBody, Limits, Refused,
    RequestLimit, ResponseFuture, ResponseHead, SendFields, Stalled, Usage, WithoutKey, outcome_of,
};
pub use declare::{per_address, try_per_address};
pub use endpoint::EndpointPriorityLayer;
pub use error::LimitError;
pub use future::LimitFuture;
pub use granted::GrantMetadata;
pub use head::Head;
pub use keys::KeyFrom;
pub use layer::LimitLayer;
pub use leases::Leases;
#[cfg(feature = "metrics")]
pub use observe::MeteredLimits;
#[cfg(feature = "axum")]
pub use plimsoll_macros::{limit, priority};
pub use priority::{EndpointPriority, PriorityFrom, PriorityHeader};
pub use service::Limit;
pub use shedding::{LoadShed, load_shedding};
