//! Limits in one line: for each address, and declared by handlers.
//!
//! [`per_address`](crate::per_address) applies the same rate to all routes. With the feature `axum` each handler can
//! have its own limit, declared next to the handler:
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, routing::{get, post}};
//! use plimsoll_policy::Policies;
//! use plimsoll_tower::declare::{LimitHandlers, LimitRoutes};
//! use plimsoll_tower::limit;
//!
//! #[limit(rps = 5, burst = 2.5)]
//! async fn search() -> &'static str {
//!     "found"
//! }
//!
//! async fn login() {}
//!
//! let app: Router = Router::new()
//!     .route("/search", get(search))
//!     .route("/login", post(login).limited(1.0, 1.0))
//!     .route("/", get(|| async { "hello" }))
//!     .policies(Policies::builder().build()?);
//! # }
//! # Ok::<(), plimsoll::InvalidLimit>(())
//! ```
//!
//! The attribute and the method are equivalent. The numbers are rounded up as in a [`Policy`](plimsoll_policy::Policy).
//! Each address, without its port, has its own count for each handler. Handlers without a declaration share the
//! [fallback](plimsoll_policy::PoliciesBuilder::fallback), as do requests that match no route.
//!
//! Policies count each IPv6 address separately by default; on the open internet, set
//! [`ipv6_prefix(64)`](plimsoll_policy::PoliciesBuilder::ipv6_prefix).
//!
//! If its router has no policies, a handler is still limited by its declaration, with the default settings.
//!
//! # Responses
//!
//! | decision | response |
//! |---|---|
//! | over the limit | 429, `Retry-After` until the next token |
//! | locked out | 429, `Retry-After` until the lockout ends |
//! | no address, because the server does not record it: see [`per_address`](crate::per_address) | 500, with the remedy in the body |
//! | the policies are closed | 503 |
//!
//! # Any limit
//!
//! A handler can declare any other limit, which then also replaces the fallback: by more arguments of [`limit`](crate::limit),
//! or with [`limited_with`](LimitHandlers::limited_with) on a route.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, routing::get};
//! use plimsoll::{Concurrency, Gate};
//! use plimsoll_tower::declare::LimitHandlers;
//! use plimsoll_tower::keys::Peer;
//! use plimsoll_tower::{RequestLimit, limit};
//!
//! /// 100 per second for each address, bursts of 20.
//! #[limit(rate = "100/s", burst = 20, key = Peer::new())]
//! async fn search() -> &'static str {
//!     "found"
//! }
//!
//! /// Ten concurrent requests; 50 more wait.
//! #[limit(concurrency = 10, queue = 50)]
//! async fn report() {}
//!
//! let exports = Gate::new(Concurrency::new(2));
//! let app: Router = Router::new()
//!     .route("/search", get(search))
//!     .route("/report", get(report))
//!     .route("/export", get(|| async {}).limited_with(RequestLimit::new(exports)));
//! # let _ = app;
//! # }
//! ```
//!
//! # Which declarations are seen
//!
//! The layer with the policies is applied to each handler of the router, and detects at that moment whether the handler
//! declares a limit: from the first request on only that limit counts. It does not detect handlers inside a router that
//! is nested as a service, or behind a layer that shares them instead of cloning them, such as a buffer: for those, the
//! fallback applies as well.

#[cfg(feature = "axum")]
mod attributed;
#[cfg(feature = "axum")]
mod declaration;
#[cfg(feature = "axum")]
mod limited;
mod per_address;
#[cfg(feature = "axum")]
mod policies;
#[cfg(feature = "axum")]
mod refusal;
#[cfg(feature = "axum")]
mod routes;

#[cfg(feature = "axum")]
pub use declaration::Declaration;
pub use per_address::{PerAddressLayer, per_address, try_per_address};
#[cfg(feature = "axum")]
pub use policies::{FallbackLayer, PolicyLayer};
#[cfg(feature = "axum")]
pub use routes::{LimitHandlers, LimitRoutes};

/// For the code that the attributes generate.
#[cfg(feature = "axum")]
#[doc(hidden)]
pub mod attribute {
    pub use super::attributed::{Attributed, HandlerFuture, by_key};
    pub use crate::RequestLimit;
    pub use axum::extract::{FromRequest, FromRequestParts, Request};
    pub use axum::handler::Handler;
    pub use plimsoll::{
        Concurrency, FixedWindow, Gate, Keyed, Priority, Queue, Quota, TokenBucket,
    };
}
