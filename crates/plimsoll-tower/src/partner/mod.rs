//! Other people's limits: what a partner's answers say about them, and a layer for clients that heeds it.
//!
//! [`Told::read`] reads the fields by which servers tell clients of their limits: `Retry-After` as seconds or as a date,
//! `RateLimit` and `RateLimit-Policy` as the IETF drafts them, also in their older forms, and `X-RateLimit-Limit`, `-Remaining`
//! and `-Reset`. A [`PartnerLayer`] goes before a client: calls ask a limiter of our own first, and when an answer says to come
//! back later, nobody asks before.
//!
//! ```
//! use plimsoll::{Gate, Pausable, Queue, TokenBucket};
//! use plimsoll_tower::partner::PartnerLayer;
//! use tower::{Layer, service_fn};
//!
//! # async fn send(_: http::Request<String>) -> Result<http::Response<String>, std::io::Error> { Ok(http::Response::default()) }
//! // Their terms say 10 a second. Calls wait for their turn, and through pauses.
//! let gate = Gate::builder(Pausable::new(TokenBucket::per_second(10))).queue(Queue::fifo(100)).name("partner").build();
//! let client = PartnerLayer::new(gate).layer(service_fn(send));
//! # let _ = client;
//! ```
//!
//! Where nobody knows what their limit is, it is [learned](PartnerLayer::learn_rate) from what they refuse.

mod fields;
mod layer;
mod learn;
mod told;

pub use layer::{Heeding, HeedingFuture, PartnerLayer, Pauses};
pub use learn::LearnRate;
pub use told::{Told, ToldLimit};
