//! Clients of upstream services that have rate limits.
//!
//! [`UpstreamLimits::read`] reads the header fields by which servers report their limits: `Retry-After` as seconds or as a
//! date, `RateLimit` and `RateLimit-Policy` as the IETF drafts define them, also in their older forms, and
//! `X-RateLimit-Limit`, `-Remaining` and `-Reset`. A [`PartnerLayer`] is put before a client: each call asks a limiter of your
//! own first, and when a response demands a pause, no call is sent before the pause has ended.
//!
//! ```
//! use plimsoll::{Gate, Pausable, Queue, TokenBucket};
//! use plimsoll_tower::partner::PartnerLayer;
//! use tower::{Layer, service_fn};
//!
//! # async fn send(_: http::Request<String>) -> Result<http::Response<String>, std::io::Error> { Ok(http::Response::default()) }
//! // The terms of the upstream allow 10 calls per second. Calls above that wait, also during pauses.
//! let gate = Gate::builder(Pausable::new(TokenBucket::per_second(10))).queue(Queue::fifo(100)).name("partner").build();
//! let client = PartnerLayer::new(gate).layer(service_fn(send));
//! # let _ = client;
//! ```
//!
//! If the limit of the upstream is unknown, the layer [learns](PartnerLayer::learn_rate) it from the upstream's refusals.

mod fields;
mod layer;
mod learn;
mod upstream;

pub use layer::{PartnerLayer, Pauses, Pausing, PausingFuture};
pub use learn::LearnRate;
pub use upstream::{UpstreamLimit, UpstreamLimits};
