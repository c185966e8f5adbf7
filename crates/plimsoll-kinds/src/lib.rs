//! Kinds of limiters, weights, and the limiters that a place is given for them.
//!
//! A *place* is a piece of a program at which load is limited: a socket that counts its bytes, a handler, a stage of
//! a pipeline. What may be hung there depends on what the place can do:
//!
//! | kind | asks | a place needs |
//! |---|---|---|
//! | [`Basic`] | whether to start anything at all | nothing |
//! | [`Rate`] | for a cost, over time | to count |
//! | [`Resource`] | for a cost, until it is given back | to hold a permit until the work is done |
//!
//! Each row can stand in for the rows below it: a basic limiter is a rate that costs nothing, and a rate is a resource
//! whose permits give nothing back. Not the other way round. A place that cannot hold a permit takes
//! `impl Into<Rate>`, and a resource there does not compile:
//!
//! ```
//! use plimsoll::kinds::Rate;
//! use plimsoll::{Gate, TokenBucket};
//!
//! fn count_bytes(limiter: impl Into<Rate>) -> Rate {
//!     limiter.into()
//! }
//! count_bytes(Gate::new(TokenBucket::per_second(1_000_000)));
//! ```
//!
//! ```compile_fail,E0277
//! # use plimsoll::kinds::Rate;
//! # fn count_bytes(limiter: impl Into<Rate>) -> Rate {
//! #     limiter.into()
//! # }
//! use plimsoll::{Concurrency, Gate};
//!
//! count_bytes(Gate::new(Concurrency::new(10)));
//! ```
//!
//! What is limited is named by a [`Weight`], and a [`Provider`] has the limiters, by weight.

mod any;
mod basic;
mod call;
mod demands;
mod provider;
mod rate;
mod reserved;
mod resource;
mod taking;
mod weight;

pub use any::{AnyLimiter, Kind};
pub use basic::{Basic, Saturation};
pub use call::LimitCall;
pub use demands::Demands;
pub use provider::{Provider, ProviderBuilder, Provides};
pub use rate::{Rate, RateLimiter, Replenishes};
pub use reserved::Reserved;
pub use resource::Resource;
pub use weight::Weight;

pub use crate::together::Permits;
