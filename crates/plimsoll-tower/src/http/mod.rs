//! Limits for services that speak HTTP, which answer for themselves.

mod all;
mod answering;
mod body;
mod future;
mod grpc_web;
mod held;
mod holding;
mod later;
mod layer;
mod limit;
mod limits;
mod once;
mod outcome;
mod service;
mod settle;
mod shared;
mod stall;
#[cfg_attr(not(feature = "upgrade"), path = "no_upgrade.rs")]
mod upgrade;
mod usage;
mod waited;
mod whose;

pub use answering::{Refused, SendFields};
pub use body::LimitBody;
pub use future::ResponseFuture;
#[cfg(feature = "axum")]
pub(crate) use held::Held;
pub use later::ByKeyLater;
pub use layer::HttpLimitLayer;
pub use limit::RequestLimit;
pub use limits::Limits;
#[cfg(any(feature = "axum", feature = "metrics"))]
pub(crate) use limits::{Ask, Asked};
#[cfg(feature = "metrics")]
pub(crate) use limits::{How, Note, OneLimit, sealed};
pub use outcome::outcome_of;
pub use service::HttpLimit;
#[cfg(feature = "metrics")]
pub(crate) use settle::Done;
pub use settle::ResponseHead;
pub use stall::Stalled;
pub use usage::Usage;
pub use whose::{ByKey, Everyone, WithoutKey};
#[cfg(feature = "axum")]
pub(crate) use whose::{Take, Whose};
