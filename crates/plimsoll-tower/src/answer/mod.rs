//! The content of responses: header fields about the caller's limits, and bodies of refusals.
//!
//! - [`Class`]: the class of a refusal, and its status in HTTP and gRPC.
//! - [`LimitStatus`] and [`Fields`]: `RateLimit`, `RateLimit-Policy` and `X-RateLimit-*`.
//! - [`retry_seconds`]: the value of `Retry-After`.
//! - [`problem`]: a machine-readable body.
//! - [`grpc_refusal`]: the same for gRPC.
//!
//! [`HttpLimitLayer`](crate::HttpLimitLayer) uses all of them; call them directly in a server that answers by itself.
//! No response contains a key: a client sees the names of limits, never the keys of other callers.
//!
//! ```
//! use plimsoll::{Concurrency, Gate};
//! use plimsoll_tower::answer::{Class, problem, retry_seconds};
//!
//! let gate = Gate::builder(Concurrency::new(1)).name("slots").build();
//! let _held = gate.try_acquire(1).unwrap();
//! let denied = gate.try_acquire(1).unwrap_err();
//! let class = Class::of(&denied);
//! assert_eq!((class, class.status().as_u16()), (Class::Capacity, 503));
//!
//! let body = problem(class, &denied, retry_seconds(&denied, &[]));
//! assert!(body.starts_with(b"{"));
//! ```

mod class;
mod fields;
mod grpc;
mod interned;
mod limit_status;
mod policy;
mod problem;
mod protobuf;
mod structured;

pub use class::Class;
pub(crate) use fields::retry_after;
pub use fields::{Fields, retry_seconds};
pub use grpc::{grpc_refusal, is_grpc};
pub use limit_status::{LimitStatus, Unit};
pub(crate) use policy::Policy;
pub use problem::{PROBLEM_JSON, problem};
