//! Limits in Redis that implement the traits of limiters in memory.

mod builder;
mod entry;
mod inner;
mod key;
mod many;
mod per_key;
mod shared;
mod source;
mod wait;

use std::fmt;
use std::sync::Arc;

use plimsoll::InvalidLimit;

use crate::{RedisLimiter, Store, StoreError, StoreKey};
use shared::Shared;

pub use builder::FleetBuilder;
pub use inner::FleetTotals;
pub use key::FleetKey;
pub use many::FleetAsk;

/// A limit in Redis that implements the traits of limiters in memory. [`RedisLimiter::fleet`] returns a builder of one.
///
/// It can be used in a layer, as an `Arc<dyn Limiter>`, and in other code that does not know stores. Clones share one limit.
///
/// It implements [`PerKey`](plimsoll::PerKey) for all keys that implement [`StoreKey`](crate::StoreKey): strings, addresses,
/// numbers, bytes, and tuples of them. [`key`](Self::key) returns a [`Limiter`](plimsoll::Limiter) for one key.
///
/// ```no_run
/// use plimsoll::{Limiter, PerKey, TokenBucket};
/// use plimsoll_redis::{Outage, Store};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?;
/// let api = api.fleet().outage(Outage::Local { share: 0.25 }).build()?;
/// let permit = api.acquire_owned("customer 42", 1.into()).await?;
///
/// let everybody = api.key("everybody");
/// let permit = everybody.acquire(1.into()).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Which calls use the store
///
/// `acquire` and `acquire_owned` call the store, in one round trip. `try_acquire` and `attempt` cannot wait for a
/// reply, so they decide only from [borrowed](FleetBuilder::borrowing) permits, from recent refusals, and by the outage
/// setting while the [circuit](crate::Circuit) is open. In all other cases they refuse with the reason
/// [`Unavailable`](plimsoll::Reason::Unavailable), and the caller continues with `acquire_owned`, as the layers of
/// `plimsoll-tower` do.
///
/// Several fleets in a layer or in a [`plimsoll::All`] need a round trip each. Grants of the others are held meanwhile, and
/// returned if one refuses. [`FleetAsk::decide_all`] and [`RedisAll`](crate::RedisAll) decide about several limits in one round
/// trip.
///
/// # If the store does not answer
///
/// If the store does not answer, the [`Outage`](crate::Outage) setting decides. A call that may have been charged is
/// never repeated. The [`StoreError`] itself is returned only by [`RedisLimiter::decide`]; a fleet counts it in
/// [`totals`](Self::totals), and its cause is in the [statistics](crate::Store::stats) and
/// [events](crate::Store::subscribe) of the store.
///
/// # Returns
///
/// A permit that is undone is returned to Redis in the background. A lease is released when its permit is dropped; if the permit
/// was split, with its last part. If a caller drops its future before the reply, the grant is undone.
#[derive(Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
}

impl RedisLimiter {
    /// Returns a builder of a [`Fleet`] for this limiter, which implements the traits of limiters in memory.
    pub fn fleet(&self) -> FleetBuilder {
        FleetBuilder::new(self.clone())
    }
}

impl Fleet {
    /// Returns a limiter for one key. All limiters for one key share its state; closing one does not close the others.
    ///
    /// ```
    /// use plimsoll::{Limiter, TokenBucket};
    /// use plimsoll_redis::Store;
    /// use std::sync::Arc;
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(100))?.fleet().build()?;
    /// let everybody: Arc<dyn Limiter> = Arc::new(api.key("everybody"));
    /// assert_eq!(everybody.name(), Some("api"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key(&self, key: impl StoreKey) -> FleetKey {
        FleetKey::new(Arc::clone(&self.shared), per_key::bytes(&key))
    }

    /// Returns the counters of this process.
    ///
    /// ```
    /// use plimsoll::{PerKey, TokenBucket};
    /// use plimsoll_redis::Store;
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(10))?.fleet().build()?;
    /// // Without borrowed permits only the store can decide, and `try_acquire` does not wait for it.
    /// assert!(api.try_acquire("customer 42", 1.into()).is_err());
    /// assert_eq!(api.totals().granted, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn totals(&self) -> FleetTotals {
        self.shared.now().totals()
    }

    /// Returns unused [borrowed](FleetBuilder::borrowing) permits to the store and waits for it. Use it before the
    /// program ends. Dropping the last handle does the same in the background, if the runtime still runs.
    ///
    /// ```no_run
    /// # async fn shutdown(api: plimsoll_redis::Fleet) {
    /// // The other processes can use the permits at once.
    /// if let Err(error) = api.give_back().await {
    ///     eprintln!("borrowed permits are lost until they refill: {error}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if some permits could not be returned. They are lost until the limit has refilled.
    pub async fn give_back(&self) -> Result<(), StoreError> {
        self.shared.now().return_borrowed().await
    }

    /// Replaces the limit of this fleet, its clones and its [keys](Self::key): the rule, the settings or the store. Usage is kept if the
    /// rule is of the same kind and the limiter has the same name. Permits that were borrowed under the old rule are returned.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::{Outage, Store};
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(10))?.fleet().build()?;
    /// let wider = store.limiter("api", TokenBucket::per_second(20))?;
    /// api.replace(wider.fleet().outage(Outage::Admit))?;
    /// assert_eq!(api.limiter().limit(), 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Waiters retry with the new rule. [`name`](plimsoll::PerKey::name) and [`totals`](Self::totals) do not change.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`FleetBuilder::build`]. Nothing is then changed.
    pub fn replace(&self, with: FleetBuilder) -> Result<(), InvalidLimit> {
        self.shared.replace(with)
    }

    /// Returns the current limiter, for calls that return a [`StoreError`].
    #[must_use]
    pub fn limiter(&self) -> RedisLimiter {
        self.shared.now().limiter().clone()
    }

    /// Returns the current store.
    #[must_use]
    pub fn store(&self) -> Store {
        self.shared.now().limiter().store().clone()
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("limiter", &self.limiter())
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}
