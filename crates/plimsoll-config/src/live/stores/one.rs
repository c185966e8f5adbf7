//! A limit without keys, in a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Outcome, Permit, Reason, Reservation, Snapshot,
    Source, Standing,
};
use plimsoll_redis::FleetKey;

use super::super::reserved::at_once;
use super::Current;

/// The one state of a limit in a store. A clone is the same limiter.
///
/// Its key is its name, so that limiters are spread over the nodes of a cluster.
#[derive(Clone)]
pub(super) struct FleetOne {
    name: Arc<str>,
    current: Arc<Current>,
    closed: Arc<AtomicBool>,
    clock: Clock,
}

impl FleetOne {
    pub(super) fn new(name: &str, current: Arc<Current>) -> Self {
        let clock = current.get().key(name).clock().clone();
        Self {
            name: name.into(),
            current,
            closed: Arc::default(),
            clock,
        }
    }

    fn key(&self) -> Result<FleetKey, Denied> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Denied::new(Reason::Closed).with_limiter(&self.name));
        }
        Ok(self.current.get().key(&self.name))
    }
}

impl Limiter for FleetOne {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let key = self.key()?;
        let permit = key.try_acquire(demand);
        permit.map(Permit::into_owned)
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let key = self.key()?;
        key.attempt(demand).map(Permit::into_owned)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(async move {
            let permit = self.acquire_owned(demand).await?;
            Ok(permit)
        })
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        let this = self.clone();
        Acquire::from_future(async move { this.key()?.acquire_owned(demand).await })
    }

    /// Grants what is known here to be free now: the store takes nothing ahead of time.
    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        Ok(at_once(self.try_acquire(demand)?))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.key()?.estimate(demand)
    }

    /// The limit, and what was granted and refused here. What is available only the store knows: all of it is said to be.
    fn snapshot(&self) -> Snapshot {
        self.current.snapshot()
    }

    fn standing(&self) -> Standing {
        Limiter::standing(&self.current.get().key(&self.name))
    }

    fn is_remote(&self) -> bool {
        true
    }

    /// The store knows nothing of it. Nobody waits.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn source(&self) -> &dyn Source {
        self
    }

    fn charge(&self, cost: u32) {
        self.current.get().key(&self.name).charge(cost);
    }
}

/// Permits have sources of their own.
impl Source for FleetOne {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}

    fn to_shared(&self) -> Arc<dyn Source> {
        Arc::new(self.clone())
    }
}
