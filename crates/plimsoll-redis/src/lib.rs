//! Limits shared by a fleet, in Redis.
//!
//! The same rule builds a limiter in memory and a limiter in Redis that all processes share. Both make the same decisions, with the
//! same reasons and the same retry times, to the nanosecond.
//!
//! ```no_run
//! use plimsoll::{Quota, SlidingLog, TokenBucket};
//! use plimsoll_redis::Store;
//!
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open("redis://127.0.0.1")?;
//! let burst = store.limiter("burst", TokenBucket::per_second(10))?;
//! let daily = store.limiter("daily", SlidingLog::new(Quota::per_day(1000)))?;
//! // Both in one round trip, all or none.
//! let both = store.all([burst, daily])?;
//! let decision = both.decide("customer 42", 1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Store::decide_all`] makes one decision about limits with different keys and costs, such as those of a user, of its tenant and of
//! the whole service, and returns an answer for each of them.
//!
//! # Refusals and store errors
//!
//! A [`Denied`](plimsoll::Denied) means that the caller is over a limit; a [`StoreError`] means that the store did not decide. They
//! are different types, so that a caller cannot mistake an outage for a refusal.
//!
//! A [`Fleet`] implements the traits of limiters in memory for a limit in Redis, for middleware and other code that does not know
//! stores. Its [`Outage`] setting selects the answer when the store does not decide.
//!
//! ```no_run
//! use plimsoll::{PerKey, TokenBucket};
//! use plimsoll_redis::{Borrow, Outage, Store};
//!
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open("redis://127.0.0.1")?;
//! let api = store.limiter("api", TokenBucket::per_second(10_000))?;
//! let api = api.fleet().outage(Outage::Local { share: 0.1 }).borrowing(Borrow::new()).build()?;
//! let permit = api.acquire_owned("customer 42", 1.into()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A circuit breaker stops calls to a store that does not answer, and probes it until it does: see [`Circuit`]. [`Borrow`] takes
//! permits in batches and avoids a round trip for each decision, with a bounded error. Concurrent calls of one limiter [share a
//! script](RedisLimiter#concurrent-calls). [`RedisLimiter::replace`] and [`Fleet::replace`] change a rule while it is in use.
//!
//! # Keys and state in Redis
//!
//! A key is `namespace:{subject}:limiter:kind`. The subject is a digest by default, or readable with
//! [`raw_keys`](StoreBuilder::raw_keys). A key expires when its state equals that of a new key. The scripts are in `src/lua`; each
//! documents at its top the state that it stores.
//!
//! Processes may use one name with different rules of one kind, as in a rolling deployment: every grant is charged to
//! all of the rules, and each process decides by its own. A change of the rule does not reset the usage.
//!
//! Redis replicates asynchronously, so a failover may lose the last grants, and at most the same amount is granted
//! again. If the clock of the server steps back, a limiter uses the last time that it has stored until the clock
//! catches up. If the step is longer than the span that the limit stores, everything used counts as used now, and the
//! event is [counted](Store::clock_steps).
//!
//! A server that evicts keys loses the state of limits. Limits need `maxmemory-policy noeviction`, or no `maxmemory`. The policy is
//! checked on each connection and [reported](StoreStats::evicts).
//!
//! # Supported servers
//!
//! The tests run on Redis 7.0, or on the server that `PLIMSOLL_REDIS_SERVER` names. The scripts need Lua 5.1, and must
//! be allowed to write after `TIME`: Redis 5.0 or later, or any Valkey. The connection uses RESP3 (Redis 6.0 or later),
//! or RESP2 if the address ends with `?protocol=resp2`. Dragonfly is not supported: its newer Lua has integers, which
//! overflow where the doubles of 5.1 do not.
//!
//! # Features
//!
//! All are off by default.
//!
//! - `cluster`: Redis Cluster, with `Store::cluster`.
//! - `tls`: `rediss://` addresses, with rustls and the root certificates of the system.
//! - `tracing`: logs failures, each kind at most once in 5 s.

mod all;
mod answer;
mod background;
mod batch;
mod batcher;
mod borrow;
mod breakers;
mod builder;
mod charge;
mod circuit;
mod decision;
mod error;
mod event_reports;
mod events;
mod fleet;
mod grants;
mod group;
mod health;
mod key;
mod key_state;
mod lease;
mod limiter;
mod link;
#[cfg(feature = "tracing")]
mod log;
mod many;
mod outage;
mod rule;
mod script;
#[cfg(feature = "spec")]
mod spec;
mod store;
mod store_key;
mod terms;
mod undo;

pub use all::RedisAll;
pub use borrow::Borrow;
/// The logic of [`Borrow`] without a store, a clock or a runtime, for simulations.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use crate::borrow::simulated::{Batch, Borrower, Step};
}
pub use builder::StoreBuilder;
pub use circuit::Circuit;
pub use decision::{Decision, RedisPermit};
pub use error::{StoreError, StoreErrorKind};
pub use fleet::{Fleet, FleetAsk, FleetBuilder, FleetKey, FleetTotals};
pub use health::{Latency, StoreEvent, StoreEvents, StoreFailure, StoreStats};
pub use key_state::Seen;
pub use limiter::RedisLimiter;
pub use many::{StoreAnswer, StoreAnswers, StoreAsk, StoreDecision, StorePermits};
pub use outage::Outage;
pub use rule::RedisRule;
pub use store::Store;
pub use store_key::StoreKey;
