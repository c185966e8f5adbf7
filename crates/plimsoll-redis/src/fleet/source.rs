//! Where the permits of a store go back to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll::{Grant, LeaseState, Moment, Outcome, Permit, Source, Standing};

use super::inner::Inner;
use crate::RedisPermit;
use crate::borrow::Tag;

/// The source of one permit: it knows the key, and what was left.
#[derive(Clone)]
pub(super) struct FleetSource {
    pub(super) inner: Arc<Inner>,
    pub(super) key: Arc<[u8]>,
    pub(super) standing: Option<Standing>,
    pub(super) origin: Origin,
}

/// Where it was taken.
#[derive(Clone)]
pub(super) enum Origin {
    /// From a rate in the store, at a moment of the store's clock.
    Store(Moment),
    Lease(Arc<Hold>),
    /// From what was borrowed.
    Stock(Tag),
    /// From the share of this process.
    Local,
}

/// A lease behind a permit that may be split.
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

    /// A part is returned. A lease is one thing in the store, so it goes back with the last part.
    fn give_back(&self, cost: u64) {
        let left = self.left.fetch_sub(cost, Ordering::AcqRel);
        if cost > 0 && left == cost {
            // Dropped, it is released in the background.
            drop(self.take());
        }
    }

    fn take(&self) -> Option<RedisPermit> {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        permit.take()
    }
}

/// A permit that was forgotten is never returned; its lease runs out.
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
