//! Costs in JSON: an estimate from the body of a request, and the actual cost from the body of its response.
//!
//! Requests to a language model state how many tokens they want at most, and responses how many were used. A [`JsonCost`] reads
//! the former before the request is admitted, a [`JsonUsage`] the latter as the response passes; the limit between them
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
//!     // A request without the field costs 2,000.
//!     .layer(HttpLimitLayer::new(RequestLimit::new(tokens).cost_by_json(2_000).charge_usage()))
//!     .layer(JsonUsage::of("/usage/total_tokens"))
//!     .service(service_fn(complete));
//! # let _ = service;
//! ```
//!
//! # Which bodies are read
//!
//! Bodies whose content type is JSON, up to a [maximum](JsonCost::max) of 64 KiB by default. Longer bodies and bodies that are
//! not JSON pass unchanged, and their cost is unknown. A request is passed on when its whole body, or the maximum, has arrived:
//! put limits against slow senders, such as a time-out or a concurrency limit, further out.
//!
//! | body | [`JsonCost`] | [`JsonUsage`] |
//! |---|---|---|
//! | has the field | its value, rounded up | its value, rounded up |
//! | lacks the field, is no JSON, or is too long | no [`BodyCost`] | the [`BodyCost`] of the request, if there is one |
//! | is cut short | no [`BodyCost`] | nothing is reported |
//!
//! # Examples of pointers
//!
//! A pointer is a JSON pointer (RFC 6901): `/usage/total_tokens` is the field `total_tokens` in the object `usage`, `/items/0`
//! the first item of an array, and the empty pointer the whole document. `~1` stands for a slash in a name, `~0` for a tilde.
//!
//! ```
//! use plimsoll_tower::json::JsonCost;
//!
//! assert!(JsonCost::try_of("/usage/total_tokens").is_ok());
//! assert!(JsonCost::try_of("/content~1type").is_ok());
//! assert!(JsonCost::try_of("usage.total_tokens").is_err());
//! ```

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
