//! `all` over members of which some are kept in stores.
//!
//! [`All`] asks for what is free now, and waits where something is not. Of a store nothing is known before it has been
//! asked, so here each is asked in turn, holding what was taken from those before it. What is in memory comes first: it
//! costs no round trip, and only there anybody waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use plimsoll::kinds::RateLimiter;
use plimsoll::{
    Acquire, All, Clock, Demand, Denied, Grant, Limiter, Outcome, Permit, Reservation, Snapshot,
    Source, Standing, Terms,
};

/// Several limiters, all or none. A clone is the same limiter.
#[derive(Clone)]
pub(super) struct Together {
    inside: Arc<Inside>,
}

struct Inside {
    name: String,
    /// Those in memory as one, and then the others.
    members: Vec<Arc<dyn Limiter>>,
    granted: AtomicU64,
    denied: AtomicU64,
}

impl Together {
    pub(super) fn new(name: &str, here: All, stored: Vec<Arc<dyn Limiter>>) -> Self {
        let here: Arc<dyn Limiter> = Arc::new(here);
        Self {
            inside: Arc::new(Inside {
                name: name.to_owned(),
                members: [vec![here], stored].concat(),
                granted: AtomicU64::new(0),
                denied: AtomicU64::new(0),
            }),
        }
    }

    fn members(&self) -> &[Arc<dyn Limiter>] {
        &self.inside.members
    }
}

impl Inside {
    /// Takes what is known to be free now.
    fn attempt(&self, demand: Demand) -> Result<Permit<'static>, Denied> {
        let mut held = Held::default();
        for member in &self.members {
            held.0.push(member.attempt_owned(demand)?);
        }
        Ok(held.permit(demand, self.members[0].clock()))
    }

    async fn acquire(&self, demand: Demand) -> Result<Permit<'static>, Denied> {
        let mut held = Held::default();
        for member in &self.members {
            held.0.push(member.acquire_owned(demand).await?);
        }
        Ok(held.permit(demand, self.members[0].clock()))
    }

    fn counted<'a>(&self, answer: Result<Permit<'a>, Denied>) -> Result<Permit<'a>, Denied> {
        let count = match &answer {
            Ok(_) => &self.granted,
            Err(_) => &self.denied,
        };
        count.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

/// What has been taken so far. Dropped before all is there, it was never taken.
#[derive(Default)]
struct Held(Vec<Permit<'static>>);

impl Held {
    fn permit(mut self, demand: Demand, clock: &Clock) -> Permit<'static> {
        let permits = std::mem::take(&mut self.0);
        let grant = Grant {
            cost: demand.cost(),
            taken: clock.now(),
            priority: demand.class(),
            timed: false,
        };
        let bundle = Bundle(Arc::new(Mutex::new(Permits(permits))));
        Permit::shared(Arc::new(bundle), grant, true)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        while let Some(permit) = self.0.pop() {
            permit.undo();
        }
    }
}

/// Where a permit for all of them goes back to: what is done with it, or a part of it, is done with each.
struct Bundle(Arc<Mutex<Permits>>);

struct Permits(Vec<Permit<'static>>);

impl Bundle {
    fn each(&self, cost: u32, then: impl Fn(Permit<'static>)) {
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for at in (0..permits.0.len()).rev() {
            let permit = &mut permits.0[at];
            let part = if permit.cost() > cost {
                permit.split(cost)
            } else {
                Some(permits.0.swap_remove(at))
            };
            part.into_iter().for_each(&then);
        }
    }
}

impl Source for Bundle {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.each(grant.cost, |permit| permit.finish(outcome));
    }

    fn undo(&self, grant: Grant, _whole: bool) {
        self.each(grant.cost, Permit::undo);
    }

    /// That of the member which has the least left, of those that said so.
    fn standing(&self) -> Option<Standing> {
        let permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let standings = permits.0.iter().filter_map(Permit::standing);
        standings.min_by_key(Standing::remaining)
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        Arc::new(Self(Arc::clone(&self.0)))
    }
}

/// A permit that was forgotten is never given back.
impl Drop for Permits {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Permit::forget);
    }
}

/// Only those are made a rate whose members are.
impl RateLimiter for Together {}

impl Limiter for Together {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.inside.counted(self.inside.attempt(demand))
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let permit = self.inside.attempt(demand)?;
        self.inside.counted(Ok(permit))
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(async move {
            let permit = self.inside.acquire(demand).await;
            self.inside.counted(permit)
        })
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        let inside = Arc::clone(&self.inside);
        Acquire::from_future(async move { inside.counted(inside.acquire(demand).await) })
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        Ok(reserved(self.try_acquire(demand)?))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        let mut members = self.members().iter();
        members.try_for_each(|member| member.estimate(demand))
    }

    /// The least of what the members have; the totals are of demands to all of them.
    fn snapshot(&self) -> Snapshot {
        let seen = self.members().iter().map(|member| member.snapshot());
        let seen: Vec<Snapshot> = seen.collect();
        let least = |of: fn(&Snapshot) -> u64| seen.iter().map(of).min().unwrap_or_default();
        let sum = |of: fn(&Snapshot) -> u64| seen.iter().map(of).fold(0, u64::saturating_add);
        let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Snapshot::of(least(Snapshot::limit), least(Snapshot::available))
            .with_totals(total(&self.inside.granted), total(&self.inside.denied))
            .with_waiters(sum(Snapshot::waiters), sum(Snapshot::queue_bound))
    }

    fn standing(&self) -> Option<Standing> {
        let standings = self.members().iter().filter_map(|member| member.standing());
        standings.min_by_key(Standing::remaining)
    }

    fn terms(&self) -> Terms {
        let terms = self.members().iter().map(|member| member.terms());
        terms.min_by_key(|terms| terms.limit).unwrap_or_default()
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        let mut members = self.members().iter();
        members.try_for_each(|member| member.check_saturation())
    }

    /// Closes every member.
    fn close(&self) {
        self.members().iter().for_each(|member| member.close());
    }

    fn name(&self) -> Option<&str> {
        Some(&self.inside.name)
    }

    fn clock(&self) -> &Clock {
        self.members()[0].clock()
    }

    fn source(&self) -> &dyn Source {
        self
    }

    fn charge(&self, cost: u32) {
        self.members().iter().for_each(|member| member.charge(cost));
    }
}

/// Permits have sources of their own.
impl Source for Together {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}

    fn to_shared(&self) -> Arc<dyn Source> {
        Arc::new(self.clone())
    }
}

/// A reservation of what was granted at once.
pub(super) fn reserved(permit: Permit<'_>) -> Reservation<'_> {
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
