//! The sources to which permits of a fleet are returned.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll::{Grant, LeaseState, Moment, Outcome, Permit, Source, Standing};

use super::inner::Inner;
use crate::RedisPermit;
use crate::borrow::Tag;

/// The source of one permit, with its key and the standing after the grant.
#[derive(Clone)]
pub(super) struct FleetSource {
    pub(super) inner: Arc<Inner>,
    pub(super) key: Arc<[u8]>,
    pub(super) standing: Option<Standing>,
    pub(super) origin: Origin,
}

/// The origin of a permit.
#[derive(Clone)]
pub(super) enum Origin {
    /// A rate in the store, at this time on the clock of the store.
    Store(Moment),
    Lease(Arc<Hold>),
    /// The borrowed stock.
    Stock(Tag),
    /// The share of this process, during an outage.
    Local,
}

/// The lease of a permit that may be split.
pub(super) struct Hold {
    left: AtomicU64,
    states: Vec<LeaseState>,
    permit: Mutex<Option<RedisPermit>>,
}

impl Hold {
    pub(super) fn new(permit: RedisPermit) -> Self {
        Self {
            left: AtomicU64::new(permit.cost()),
            states: permit.states().cloned().collect(),
            permit: Mutex::new(Some(permit)),
        }
    }

    /// Returns a part. A lease cannot be split, so it is released with the last part.
    fn give_back(&self, cost: u64) {
        let left = self.left.fetch_sub(cost, Ordering::AcqRel);
        if cost > 0 && left == cost {
            // Dropping it releases it in the background.
            drop(self.take());
        }
    }

    fn take(&self) -> Option<RedisPermit> {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        permit.take()
    }
}

/// A forgotten permit is never returned; its lease expires.
impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(permit) = self.take() {
            permit.forget();
        }
    }
}

impl FleetSource {
    pub(super) fn permit(self, grant: Grant) -> Permit<'static> {
        let returns = matches!(self.origin, Origin::Lease(_));
        Permit::shared(Arc::new(self), grant, returns)
    }
}

impl Source for FleetSource {
    fn give_back(&self, grant: Grant, _outcome: Outcome) {
        if let Origin::Lease(hold) = &self.origin {
            hold.give_back(grant.cost);
        }
    }

    fn undo(&self, grant: Grant, _whole: bool) {
        match &self.origin {
            Origin::Store(taken) => self.inner.put_back(&self.key, grant.cost, *taken),
            Origin::Lease(hold) => hold.give_back(grant.cost),
            Origin::Stock(tag) => self.inner.return_to_stock(&self.key, grant.cost, *tag),
            Origin::Local => self.inner.undo_locally(&self.key, grant),
        }
    }

    fn standing(&self) -> Option<Standing> {
        self.standing
    }

    fn leases(&self, each: &mut dyn FnMut(&LeaseState)) {
        if let Origin::Lease(hold) = &self.origin {
            hold.states.iter().for_each(each);
        }
    }
}
