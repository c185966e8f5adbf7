//! Limits in one line: for each address, and as handlers declare them.
//!
//! [`per_address`](crate::per_address) puts the same rate before everything. With the feature `axum` each handler can
//! have its own, beside the handler itself:
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
//! Both ways of writing it mean the same. The numbers are rounded up as a [`Policy`](plimsoll_policy::Policy) says, each
//! address has its own count for each handler, whatever its port, and handlers that declare nothing share the
//! [fallback](plimsoll_policy::PoliciesBuilder::fallback), as do requests that find no handler.
//!
//! Policies count each IPv6 address by itself unless set otherwise; on the open internet, say
//! [`ipv6_prefix(64)`](plimsoll_policy::PoliciesBuilder::ipv6_prefix).
//!
//! A handler whose router has no policies is limited by what it declares all the same, with the usual settings: nothing is
//! unlimited because a line is missing.
//!
//! # What answers say
//!
//! | decision | answer |
//! |---|---|
//! | over the limit | 429, `Retry-After` until the next token |
//! | locked out | 429, `Retry-After` until the lockout ends |
//! | no address, because the program does not keep it: see [`per_address`](crate::per_address) | 429, `Retry-After: 1` |
//! | the policies are closed | 503 |
//!
//! # Any limit
//!
//! A handler can declare any other limit, which then counts in the place of the fallback as well: by more arguments of
//! [`limit`](crate::limit), or with [`limited_with`](LimitHandlers::limited_with) on a route.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, routing::get};
//! use plimsoll::{Concurrency, Gate};
//! use plimsoll_tower::declare::LimitHandlers;
//! use plimsoll_tower::keys::Peer;
//! use plimsoll_tower::{RequestLimit, limit};
//!
//! /// 100 a second from each address, up to 20 at once.
//! #[limit(rate = "100/s", burst = 20, key = Peer::new())]
//! async fn search() -> &'static str {
//!     "found"
//! }
//!
//! /// Ten at the same time; 50 more wait.
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
//! # Who has declared something
//!
//! The layer with the policies is put around each handler of the router, and finds out at that moment whether the handler
//! declares something: from the first request on only that counts. A router that is nested as a service is not seen into, nor
//! is a handler behind a layer that shares it instead of cloning it, as a buffer does: for those the fallback counts too.

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
mod routes;

#[cfg(feature = "axum")]
pub use declaration::Declaration;
pub use per_address::{PerAddressLayer, per_address, try_per_address};
#[cfg(feature = "axum")]
pub use policies::{FallbackLayer, PolicyLayer};
#[cfg(feature = "axum")]
pub use routes::{LimitHandlers, LimitRoutes};

/// What the attributes write.
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
