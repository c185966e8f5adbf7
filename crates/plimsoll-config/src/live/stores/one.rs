//! A limit without keys, in a store.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use plimsoll::kinds::RateLimiter;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Outcome, Permit, Reason, Reservation, Snapshot,
    Source, Standing, Terms,
};
use plimsoll_redis::FleetKey;

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

/// Only those are made a rate that are not given back.
impl RateLimiter for FleetOne {}

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
        Ok(reserved(self.try_acquire(demand)?))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.key()?.estimate(demand)
    }

    /// The limit, and what was granted and refused here. What is available only the store knows: all of it is said to be.
    fn snapshot(&self) -> Snapshot {
        self.current.snapshot()
    }

    fn standing(&self) -> Option<Standing> {
        Limiter::standing(&self.key().ok()?)
    }

    fn terms(&self) -> Terms {
        self.current.get().key(&self.name).terms()
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

/// A reservation of what was granted at once.
fn reserved(permit: Permit<'_>) -> Reservation<'_> {
    let now = permit.granted_at();
    Reservation::from_future(now, Some(now), Ready(Some(permit)))
}

/// A permit that is not taken after all unless it is asked for.
struct Ready<'a>(Option<Permit<'a>>);

impl<'a> Future for Ready<'a> {
    type Output = Result<Permit<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0
            .take()
            .map_or(Poll::Pending, |permit| Poll::Ready(Ok(permit)))
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.undo();
        }
    }
}
