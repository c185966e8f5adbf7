//! A limiter as a member of several that are asked as one.
//!
//! Whoever asks several at once forgets their permits, and gives back to the limiters by what was granted. Which of the limiters
//! that have stood behind a name granted it cannot be told from that: so the permits themselves are kept with the name.

use std::sync::{Arc, Mutex, Weak};

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Moment, Outcome, Permit, Reservation, Snapshot,
    Source, Standing,
};

use super::generation::lock;
use super::handle::Handle;
use super::slot::Slot;

/// Permits that are given back by what was granted, and not by themselves.
pub(super) struct Kept {
    slot: Weak<Slot>,
    permits: Mutex<Vec<Permit<'static>>>,
}

impl Kept {
    pub(super) fn of(slot: &Weak<Slot>) -> Arc<Self> {
        Arc::new(Self {
            slot: Weak::clone(slot),
            permits: Mutex::default(),
        })
    }

    fn keep(&self, permit: Permit<'static>) {
        lock(&self.permits).push(permit);
    }

    /// Takes out as much as was granted: what was granted at that moment, or else the oldest.
    fn take(&self, grant: Grant) -> Vec<Permit<'static>> {
        let mut kept = lock(&self.permits);
        let (mut left, mut taken) = (grant.cost, Vec::new());
        while left > 0 && !kept.is_empty() {
            let same = |permit: &Permit<'_>| permit.grant().taken == grant.taken;
            let at = kept.iter().position(same).unwrap_or(0);
            let part = match kept[at].cost() {
                cost if cost > left => kept[at].split(left),
                _ => Some(kept.remove(at)),
            };
            let Some(part) = part else { break };
            left -= part.cost();
            taken.push(part);
        }
        taken
    }
}

/// What is not kept here was granted by a rate.
impl Source for Kept {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        // When it is not locked: it may serve who waits.
        let taken = self.take(grant);
        taken.into_iter().for_each(|permit| permit.finish(outcome));
    }

    fn undo(&self, grant: Grant, whole: bool) {
        let taken = self.take(grant);
        if !taken.is_empty() {
            taken.into_iter().for_each(Permit::undo);
        } else if let Some(slot) = self.slot.upgrade() {
            slot.undo_rate(grant, whole);
        }
    }

    fn now(&self) -> Option<Moment> {
        self.slot.upgrade().map(|slot| slot.clock().now())
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        match self.slot.upgrade() {
            Some(slot) => Arc::clone(&slot.kept) as _,
            None => unreachable!("whoever asks holds the name"),
        }
    }
}

/// Whatever limiter stands behind a name, for those who ask several at once.
#[derive(Clone)]
pub(super) struct Member(pub(super) Handle);

impl Member {
    /// Keeps a permit that has to go back, and returns one that stands for it.
    fn keep<'a>(&'a self, permit: Permit<'a>) -> Permit<'a> {
        // Those of a store have sources of their own, and nobody forgets them.
        if !permit.gives_back() || self.0.is_remote() {
            return permit;
        }
        let grant = permit.grant();
        let kept = &*self.0.0.kept;
        kept.keep(permit.into_owned());
        Permit::new(kept, grant, true)
    }
}

impl plimsoll_kinds::RateLimiter for Member {}

impl Limiter for Member {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let permit = self.0.try_acquire(demand)?;
        Ok(self.keep(permit))
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let permit = self.0.attempt(demand)?;
        Ok(self.keep(permit))
    }

    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        let permit = self.0.attempt_owned(demand)?;
        Some(self.keep(permit).into_owned())
    }

    fn undo(&self, permit: Permit<'_>) {
        self.0.undo(permit);
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(async move {
            let permit = self.0.acquire_owned(demand).await?;
            Ok(self.keep(permit))
        })
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        let this = self.clone();
        Acquire::from_future(async move {
            let permit = this.0.acquire_owned(demand).await?;
            Ok(this.keep(permit).into_owned())
        })
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let reservation = self.0.reserve(demand)?;
        let wait = reservation.wait();
        let made_at = self.0.clock().precise_now();
        let ready_at = wait.map(|wait| made_at.plus(wait));
        let permit = Box::pin(async move { Ok(self.keep(reservation.await?)) });
        Ok(Reservation::from_future(made_at, ready_at, permit))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.0.estimate(demand)
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn standing(&self) -> Standing {
        self.0.standing()
    }

    fn is_remote(&self) -> bool {
        self.0.is_remote()
    }

    fn close(&self) {
        self.0.close();
    }

    fn name(&self) -> Option<&str> {
        self.0.name()
    }

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn source(&self) -> &dyn Source {
        &*self.0.0.kept
    }

    fn charge(&self, cost: u32) {
        self.0.charge(cost);
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        self.0.check_saturation()
    }
}
