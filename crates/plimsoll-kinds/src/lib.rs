#![doc = include_str!("../README.md")]

mod acquire;
mod any;
mod basic;
mod call;
mod demands;
mod key_text;
mod keyed;
mod pipeline;
mod provider;
mod rate;
mod reserve;
mod resource;
mod retry;
mod weight;

pub use any::{AnyLimiter, LimiterKind};
pub use basic::{Basic, Saturation};
pub use call::LimitCall;
pub use demands::Demands;
pub use keyed::{KeyedLimiter, TextKeys};
pub use pipeline::LimitedConsumer;
#[doc(inline)]
pub use plimsoll::together::{Permits, Reserved};
pub use provider::{Provider, ProviderBuilder, Provides};
pub use rate::{Rate, RateLimiter, Replenishes};
pub use resource::Resource;
#[doc(hidden)]
pub use retry::RetryingAcquire;
pub use weight::Weight;
