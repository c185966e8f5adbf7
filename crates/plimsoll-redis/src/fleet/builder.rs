use std::sync::Arc;

use plimsoll::InvalidLimit;

use super::Fleet;
use super::shared::Shared;
use crate::{Borrow, Outage, RedisLimiter};

/// Settings of a [`Fleet`]. See [`RedisLimiter::fleet`].
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

    /// What is answered while the store cannot decide; to refuse unless said otherwise.
    pub fn outage(mut self, outage: Outage) -> Self {
        self.outage = outage;
        self
    }

    /// Takes from the store in batches, and decides here: see [`Borrow`], which also says how far that is off.
    pub fn borrowing(mut self, borrow: Borrow) -> Self {
        self.borrow = Some(borrow);
        self
    }

    /// Lets up to `most` callers of this process wait when they are refused, as long as their demands are willing to;
    /// unless said otherwise nobody waits.
    ///
    /// They wait for the time that the refusal carried, and then ask again; there is no order among them, and others of the fleet
    /// may come first. What depends on others giving back, as leases do, has no time, so nobody waits for it.
    pub fn waiting(mut self, most: u64) -> Self {
        self.waiting = most;
        self
    }

    /// Builds it. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// If a setting does not fit the limit: a share that is none, or borrowing what is held by leases or needs gaps.
    pub fn build(self) -> Result<Fleet, InvalidLimit> {
        Ok(Fleet {
            shared: Arc::new(Shared::new(self)?),
        })
    }
}
