//! Limits shared by a fleet, in Redis.
//!
//! A rule makes a limiter in memory and one that all processes share, and both give the same answers: decisions,
//! reasons, and the time at which to retry, to the nanosecond.
//!
//! ```no_run
//! use plimsoll::{Quota, SlidingLog, TokenBucket};
//! use plimsoll_redis::Store;
//!
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::connect("redis://127.0.0.1")?;
//! let burst = store.limiter("burst", TokenBucket::per_second(10))?;
//! let daily = store.limiter("daily", SlidingLog::new(Quota::per_day(1000)))?;
//! // Both in one round trip, all or none.
//! let both = store.all([burst, daily])?;
//! let decision = both.decide("customer 42", 1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Store::decide_all`] decides at once about limits of different keys and costs, such as those of a user, a tenant and
//! everybody, and answers for each of them.
//!
//! # Refused, or not decided
//!
//! A [`Denied`](plimsoll::Denied) means that a caller is over a limit; a [`StoreError`] means that the store did not
//! decide. They are different types, so that no outage is ever mistaken for an answer.
//!
//! A [`Fleet`] puts a limit in Redis behind the traits of limits in memory, for layers and code that know nothing of
//! stores. Its [`Outage`] setting says what it answers when the store cannot.
//!
//! ```no_run
//! use plimsoll::{PerKey, TokenBucket};
//! use plimsoll_redis::{Borrow, Outage, Store};
//!
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::connect("redis://127.0.0.1")?;
//! let api = store.limiter("api", TokenBucket::per_second(10_000))?;
//! let api = api.fleet().outage(Outage::Local { share: 0.1 }).borrowing(Borrow::new()).build()?;
//! let permit = api.acquire_owned("customer 42", 1.into()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A store that does not answer is not called for a while, and found again by itself: see [`Circuit`]. [`Borrow`] saves the
//! round trip for each decision, and says at what price. Callers that wait for the same limiter [share a
//! script](RedisLimiter#many-callers). [`RedisLimiter::replace`] and [`Fleet::replace`] change a rule while it is used.
//!
//! # What is in Redis
//!
//! A key is `namespace:{subject}:limiter:kind`, where the subject is a digest unless it is said otherwise
//! ([`raw_keys`](StoreBuilder::raw_keys)). Every key expires when it would say no more than a key that is not there.
//! The scripts are in `src/lua`, and each says at its top what it keeps.
//!
//! Processes that use one name with different terms, as in a rolling deployment, count together: every grant is charged to
//! the terms of all, and each is decided by its own. What was used stays used.
//!
//! Redis replicates without waiting, so a failover may forget the last moments: then up to what was granted in
//! them is granted again. A clock that steps back stands still until it has caught up; if it is off by more than the
//! limit remembers, what was used counts as used now, and that is [counted](Store::clock_steps).
//!
//! A server that evicts keys forgets limits. It is asked for that when it is connected to, and
//! [reported](StoreStats::evicts): limits need `maxmemory-policy noeviction`, or no `maxmemory`.
//!
//! # Which servers
//!
//! The tests run on Redis 7.0, and on any server that `PLIMSOLL_REDIS_SERVER` names. The scripts need Lua 5.1 and scripts that may write after `TIME`, which is Redis 5.0 and
//! later, and every Valkey; the connection speaks RESP3, which is Redis 6.0 and later, unless the address ends with
//! `?protocol=resp2`. Dragonfly runs scripts by another Lua, whose whole numbers overflow where those of 5.1 do not: limits
//! are not exact there, and it is not supported.
//!
//! # Features
//!
//! All are off by default.
//!
//! - `cluster`: Redis Cluster, by `Store::cluster`.
//! - `tls`: `rediss://` addresses, with rustls and the roots of the system.
//! - `tracing`: causes of failures as events, of each at most one in 5 s.

mod all;
mod answer;
mod background;
mod batch;
mod borrow;
mod builder;
mod bytes;
mod charge;
mod circuit;
mod decision;
#[cfg(feature = "spec")]
mod described;
mod error;
mod event_reports;
mod events;
mod fleet;
mod group;
mod health;
mod key;
mod lanes;
mod lease;
mod limiter;
mod link;
#[cfg(feature = "tracing")]
mod log;
mod many;
mod nodes;
mod outage;
mod rule;
mod script;
mod state;
mod store;
mod terms;
mod undo;

pub use all::RedisAll;
pub use borrow::Borrow;
/// Borrowing without a store, a clock or a runtime, to be simulated.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use crate::borrow::simulated::{Batch, Borrower, Step};
}
pub use builder::StoreBuilder;
pub use bytes::StoreKey;
pub use circuit::Circuit;
pub use decision::{Decision, RedisPermit};
pub use error::{StoreError, StoreErrorKind};
pub use fleet::{Fleet, FleetAsk, FleetBuilder, FleetKey, FleetTotals};
pub use health::{Latency, StoreEvent, StoreEvents, StoreFailure, StoreStats};
pub use limiter::RedisLimiter;
pub use many::{StoreAnswer, StoreAnswers, StoreAsk, StoreDecision, StorePermits};
pub use outage::Outage;
pub use rule::RedisRule;
pub use state::Seen;
pub use store::Store;
