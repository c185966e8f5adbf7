//! Costs from JSON: an estimate from the body of a request, and what it really was from the body of its answer.
//!
//! Requests to a model say how much they want at most, and answers how much it was. A [`JsonCost`] reads the one before the
//! request is let in, a [`JsonUsage`] the other as it passes; the limit between them
//! [estimates](crate::RequestLimit::cost_by_json) and [settles](crate::RequestLimit::charge_usage).
//!
//! ```
//! use plimsoll::{Gate, Quota, TokenBucket};
//! use plimsoll_tower::json::{JsonCost, JsonUsage};
//! use plimsoll_tower::{HttpLimitLayer, RequestLimit};
//! use tower::{ServiceBuilder, service_fn};
//!
//! # use plimsoll_tower::json::{Copied, Replayed};
//! # async fn complete(_: http::Request<Replayed<axum::body::Body>>) -> Result<http::Response<axum::body::Body>, std::convert::Infallible> { Ok(Default::default()) }
//! let tokens = Gate::new(TokenBucket::greedy(Quota::per_minute(100_000)));
//! let service = ServiceBuilder::new()
//!     .layer(JsonCost::of("/max_tokens"))
//!     // A request that does not say counts 2,000.
//!     .layer(HttpLimitLayer::new(RequestLimit::new(tokens).cost_by_json(2_000).charge_usage()))
//!     .layer(JsonUsage::of("/usage/total_tokens"))
//!     .service(service_fn(complete));
//! # let _ = service;
//! ```
//!
//! # What is read
//!
//! Only bodies whose content type is JSON, up to a [bound](JsonCost::bound) of 64 KiB unless set. What is longer, or not
//! JSON, passes as it came, and its cost is not known. A request is passed on when its body, or as much as the bound
//! allows, is there: put what limits slow senders, a time-out or a number of requests at once, further out.

mod copied;
mod cost;
mod measure;
mod replayed;
mod usage;

pub use crate::http::BodyCost;
pub use copied::Copied;
#[doc(hidden)]
pub use cost::BodyReader;
pub use cost::{Estimated, EstimatedFuture, JsonCost};
pub use replayed::Replayed;
pub use usage::{JsonUsage, Metered, MeteredFuture};
