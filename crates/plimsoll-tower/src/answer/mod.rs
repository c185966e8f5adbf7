//! Answers: what they say of the caller's limits, and of a refusal.
//!
//! - [`Class`]: what kind of refusal it is, and its status in HTTP and gRPC.
//! - [`LimitStatus`] and [`Fields`]: `RateLimit`, `RateLimit-Policy` and `X-RateLimit-*`.
//! - [`retry_seconds`]: when to come back.
//! - [`problem`]: a body that programs can read.
//! - [`grpc_refusal`]: the same for gRPC.
//!
//! Nothing here contains a key: a caller learns the names of limits, never who else is limited.

mod class;
mod fields;
mod grpc;
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
