//! Limits in Redis behind the traits of limits in memory.

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

/// A limit in Redis that can be used wherever one in memory can. Made by [`RedisLimiter::fleet`].
///
/// It goes into a layer, behind an `Arc<dyn Limiter>`, into code that knows nothing of stores. Clones are the same limit.
///
/// For keys it is a [`PerKey`](plimsoll::PerKey), whatever they are, as long as they can be [written](crate::StoreKey):
/// texts, addresses, numbers, bytes, and tuples of them. [`key`](Self::key) makes a [`Limiter`](plimsoll::Limiter) of one of
/// them.
///
/// ```no_run
/// use plimsoll::{Limiter, PerKey, TokenBucket};
/// use plimsoll_redis::{Outage, Store};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::connect("redis://127.0.0.1")?;
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
/// # Who is asked
///
/// `acquire` and `acquire_owned` ask the store, in one round trip. `try_acquire` and `attempt` cannot wait for an answer,
/// so they decide only what is known here: what was [borrowed](FleetBuilder::borrowing), who was refused lately, and what
/// is answered while the store is [not asked](crate::Circuit). Of everything else they say
/// [`Unavailable`](plimsoll::Reason::Unavailable), and whoever gets that goes on with `acquire_owned`, as the layers of
/// `plimsoll-tower` do.
///
/// Of several limits in a layer, or in a [`plimsoll::All`], each is a round trip of its own. What the others have granted
/// is held meanwhile, and returned if one refuses. [`FleetAsk::decide_all`] and [`RedisAll`](crate::RedisAll) ask several in
/// one round trip.
///
/// # If the store does not answer
///
/// Then [`Outage`](crate::Outage) says what is answered. Nothing that may have been charged is ever asked again.
/// The error itself is only seen by those who ask with [`RedisLimiter::decide`]; here it is counted
/// ([`totals`](Self::totals)), and its cause is in the [statistics](crate::Store::stats) and
/// [events](crate::Store::subscribe) of the store.
///
/// # What comes back
///
/// A permit knows its key. Undone it is returned in Redis, in the background; what was held by a lease goes back when
/// the permit is dropped, and of a permit that was split when its last part is. Somebody who gives up while the
/// answer is on its way is not charged: a grant that nobody waits for is returned.
#[derive(Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
}

impl RedisLimiter {
    /// The same limit behind the traits of limits in memory.
    pub fn fleet(&self) -> FleetBuilder {
        FleetBuilder::new(self.clone())
    }
}

impl Fleet {
    /// The limit of one key.
    #[must_use]
    pub fn key(&self, key: impl StoreKey) -> FleetKey {
        FleetKey::new(Arc::clone(&self.shared), per_key::bytes(&key))
    }

    /// What this process did so far.
    #[must_use]
    pub fn totals(&self) -> FleetTotals {
        self.shared.now().totals()
    }

    /// Gives back in the store what was [borrowed](FleetBuilder::borrowing) and is not used, and waits until the store knows:
    /// for programs that end. Dropping the last handle does the same in the background, if the runtime lasts.
    ///
    /// # Errors
    ///
    /// If some of it could not be returned. It is lost, until the limit has replenished itself.
    pub async fn give_back(&self) -> Result<(), StoreError> {
        self.shared.now().give_back_borrowed().await
    }

    /// Changes the limit for everybody who holds this fleet, its clones and its [keys](Self::key): to another rule, other
    /// settings, or another store. What was used stays used, where the rule is of the same kind and the limiter has the same
    /// name. What was borrowed by the old rule goes back.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::{Outage, Store};
    ///
    /// let store = Store::connect("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(10))?.fleet().build()?;
    /// let wider = store.limiter("api", TokenBucket::per_second(20))?;
    /// api.replace(wider.fleet().outage(Outage::Admit))?;
    /// assert_eq!(api.limiter().limit(), 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Demands that wait ask by the new rule when it is their time. [`name`](plimsoll::PerKey::name) and
    /// [`totals`](Self::totals) go on.
    ///
    /// # Errors
    ///
    /// As [`FleetBuilder::build`]; then nothing has changed.
    pub fn replace(&self, with: FleetBuilder) -> Result<(), InvalidLimit> {
        self.shared.replace(with)
    }

    /// The limiter that decides now.
    #[must_use]
    pub fn limiter(&self) -> RedisLimiter {
        self.shared.now().limiter().clone()
    }

    /// The store in which it is held now.
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
