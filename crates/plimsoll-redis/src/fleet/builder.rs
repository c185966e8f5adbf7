use std::sync::Arc;

use plimsoll::InvalidLimit;

use super::Fleet;
use super::shared::Shared;
use crate::{Borrow, Outage, RedisLimiter};

/// Builds a [`Fleet`]. Created by [`RedisLimiter::fleet`].
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

    /// Sets what is answered while the store does not decide; [`Outage::Deny`] by default.
    pub fn outage(mut self, outage: Outage) -> Self {
        self.outage = outage;
        self
    }

    /// Takes permits from the store in batches and decides in this process. See [`Borrow`] for the error bounds.
    pub fn borrowing(mut self, borrow: Borrow) -> Self {
        self.borrow = Some(borrow);
        self
    }

    /// Lets up to `most` callers of this process wait after a refusal, as long as their demands allow; none by default.
    ///
    /// A waiter sleeps until the retry time of its refusal and then asks again. There is no order among waiters, and other processes may
    /// come first. Refusals of leases have no retry time, because they depend on releases by others, so they are not waited for.
    pub fn waiting(mut self, most: u64) -> Self {
        self.waiting = most;
        self
    }

    /// Builds the fleet, without calling the store.
    ///
    /// # Errors
    ///
    /// If a setting does not fit the limit: a share that is not above 0 and at most 1, or borrowing from a limit with leases or gaps.
    pub fn build(self) -> Result<Fleet, InvalidLimit> {
        Ok(Fleet {
            shared: Arc::new(Shared::new(self)?),
        })
    }
}
