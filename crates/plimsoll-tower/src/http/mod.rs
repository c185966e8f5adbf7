//! Limits for services that speak HTTP. Refusals are responses.

mod all;
mod answering;
mod body;
mod by_key_later;
mod copy;
mod future;
mod granted;
mod grpc_web;
mod held_permits;
mod lasting;
mod layer;
mod limit;
mod limits;
mod once;
mod one_limit;
mod outcome;
mod request_permits;
mod service;
mod settle;
mod shared;
mod stall;
mod subject;
#[cfg_attr(not(feature = "upgrade"), path = "no_upgrade.rs")]
mod upgrade;
mod usage;
mod waited;

#[cfg(feature = "axum")]
pub(crate) use answering::Answers;
pub use answering::{Refused, SendFields};
pub use body::LimitBody;
pub use by_key_later::ByKeyLater;
#[cfg(feature = "json")]
pub(crate) use copy::copy;
pub use future::ResponseFuture;
pub(crate) use granted::Granted;
pub use layer::HttpLimitLayer;
pub use limit::RequestLimit;
pub(crate) use limit::content_length;
pub use limits::Limits;
#[cfg(feature = "metrics")]
pub(crate) use limits::{After, How, Note, OneLimit, sealed};
pub(crate) use limits::{Ask, Asked};
pub use outcome::outcome_of;
pub use service::HttpLimit;
#[cfg(feature = "metrics")]
pub(crate) use settle::Done;
pub use settle::ResponseHead;
pub use stall::Stalled;
pub use subject::{ByKey, Everyone, WithoutKey};
pub(crate) use subject::{Subject, Take};
#[cfg(feature = "json")]
pub(crate) use usage::BodyBytes;
pub use usage::{BodyCost, Usage};

/// For other crates of this workspace that put limits of their own into an [`HttpLimitLayer`]. Not part of the stable
/// interface.
#[doc(hidden)]
pub mod internals {
    pub use super::limits::sealed::Sealed;
    pub use super::limits::{After, Ask, Asked, Finding, How, Note, OneLimit};
    pub use super::settle::Done;
    pub use super::usage::BodyBytes;
    pub use crate::keys::peer::peer_of;
    pub use crate::leases::add_leases;
}
