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
//! # What callers are told
//!
//! | decision | answer |
//! |---|---|
//! | over the limit | 429, `Retry-After` until the next token |
//! | locked out | 429, `Retry-After` until the lockout ends |
//! | no address, because the program does not keep it: see [`per_address`](crate::per_address) | 429, `Retry-After: 1` |
//! | the policies are closed | 503 |
//!
//! # Who has declared something
//!
//! A router does not say what its handlers declare. So that is found out as requests come: until the first one has reached
//! a handler by its path and method, the fallback counts for it as well. From then on it does not. A router that is nested
//! as a service, or that has policies of its own, is not seen into: the fallback of the outer router always counts for it.

#[cfg(feature = "axum")]
mod declaration;
#[cfg(feature = "axum")]
mod declared_routes;
#[cfg(feature = "axum")]
mod limited;
mod per_address;
#[cfg(feature = "axum")]
mod policies;
#[cfg(feature = "axum")]
mod routes;
#[cfg(feature = "axum")]
mod within;

#[cfg(feature = "axum")]
pub use declaration::Declaration;
pub use per_address::{PerAddressLayer, per_address, try_per_address};
#[cfg(feature = "axum")]
pub use policies::{FallbackLayer, PolicyLayer};
#[cfg(feature = "axum")]
pub use routes::{LimitHandlers, LimitRoutes};
#[cfg(feature = "axum")]
pub use within::{Declares, Within};
