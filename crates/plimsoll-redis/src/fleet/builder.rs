use std::sync::Arc;

use plimsoll::InvalidLimit;

use super::Fleet;
use super::shared::Shared;
use crate::{Borrow, Outage, RedisLimiter};

/// A builder of a [`Fleet`]. [`RedisLimiter::fleet`] returns one.
///
/// ```
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Borrow, Outage, Store};
///
/// let store = Store::open("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(10_000))?;
/// let api = api.fleet().outage(Outage::Admit).borrowing(Borrow::new()).waiting(100).build()?;
/// assert_eq!(api.totals().granted, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | setting | default |
/// |---|---|
/// | [`outage`](Self::outage) | [`Outage::Deny`] |
/// | [`borrowing`](Self::borrowing) | none: each decision is a round trip |
/// | [`waiting`](Self::waiting) | 0: a refusal is final |
#[derive(Clone, Debug)]
#[must_use]
pub struct FleetBuilder {
    pub(super) limiter: RedisLimiter,
    pub(super) outage: Outage,
    pub(super) borrow: Option<Borrow>,
    pub(super) waiting: u64,
}

impl FleetBuilder {
    pub(super) fn new(limiter: RedisLimiter) -> Self {
        Self {
            limiter,
            outage: Outage::default(),
            borrow: None,
            waiting: 0,
        }
    }

    /// Sets the answer while the store does not decide. Default: [`Outage::Deny`].
    /// It applies to single decisions and to [`FleetAsk::decide_all`](crate::FleetAsk::decide_all).
    pub fn outage(mut self, outage: Outage) -> Self {
        self.outage = outage;
        self
    }

    /// Takes permits from the store in batches and decides in this process. See [`Borrow`] for the error bounds.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::{Borrow, Store};
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(10_000))?;
    /// // At most 50 permits per key wait in this process for demand.
    /// let api = api.fleet().borrowing(Borrow::new().max(50)).build()?;
    /// # let _ = api;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn borrowing(mut self, borrow: Borrow) -> Self {
        self.borrow = Some(borrow);
        self
    }

    /// Lets up to `most` callers of this process wait after a refusal, as long as their demands allow. Default: none.
    ///
    /// A waiter sleeps until the retry time of its refusal and then asks again. There is no order among waiters, and
    /// other processes may come first. A refusal of a lease has no retry time, because it depends on releases by
    /// others, so demands do not wait for leases.
    pub fn waiting(mut self, most: u64) -> Self {
        self.waiting = most;
        self
    }

    /// Builds the fleet, without calling the store.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting does not fit the limit: a share that is not above 0 and at most 1, or borrowing
    /// from a limit with leases or gaps.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::{Outage, Store};
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(10))?;
    /// assert!(api.fleet().outage(Outage::Local { share: 1.5 }).build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Fleet, InvalidLimit> {
        Ok(Fleet {
            shared: Arc::new(Shared::new(self)?),
        })
    }
}
