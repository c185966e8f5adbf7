use std::sync::Arc;

use super::Gate;
use crate::learning::Insight;
use crate::{
    Acquire, Clock, Demand, Denied, Limiter, Metadata, Moment, Packed, Parts, Permit, Reservation,
    Rule, Shareable, Snapshot, Source, Standing,
};

impl<R: Rule> Limiter for Gate<R> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, demand)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Self::acquire(self, demand)
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Self::acquire_owned(self, demand)
    }

    fn standing(&self) -> Standing {
        Self::standing(self)
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        Self::reserve(self, demand)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, demand)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn close(&self) {
        Self::close(self);
    }

    fn name(&self) -> Option<&str> {
        Self::name(self)
    }

    fn metadata(&self) -> Option<&Metadata> {
        Self::metadata(self)
    }

    fn clock(&self) -> &Clock {
        &self.core.clock
    }

    #[inline(always)]
    fn internals(&self) -> Option<&dyn crate::Internals> {
        Some(self)
    }
}

impl<R: Rule> crate::Internals for Gate<R> {
    fn source(&self) -> Option<&dyn Shareable> {
        Some(&*self.core)
    }

    #[inline]
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.core.attempt(demand)
    }

    // Always inlined: passing a permit on in memory takes longer than the decision.
    #[inline(always)]
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        let grant = self.core.attempt_by_word(demand)?;
        // A handle to the gate costs two atomic operations, the same as the decision.
        Some(if R::RETURNS_PERMITS {
            Permit::shared(Arc::clone(&self.core) as _, grant, true)
        } else {
            Permit::spent(grant)
        })
    }

    #[inline(always)]
    fn spend(&self, cost: u64) -> Option<Moment> {
        if R::RETURNS_PERMITS || R::Fast::TIMELESS {
            return None;
        }
        let grant = self.core.attempt_by_word(Demand::of(cost))?;
        Some(grant.taken)
    }

    fn undo(&self, permit: Permit<'_>) {
        permit.undo_by(|grant, whole| self.core.undo(grant, whole));
    }

    fn charge(&self, cost: u64) {
        Self::charge(self, cost);
    }

    fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        if R::RETURNS_PERMITS {
            // The unused part is returned at once. There is no permit for a higher cost.
            drop(permit.split(permit.cost().saturating_sub(cost)));
        } else if let Some((grant, era)) = permit.settle(cost) {
            self.settle_grant(grant, era, cost);
        }
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        Self::check_saturation(self)
    }

    fn parts(&self) -> Parts<'_> {
        Parts::gate(&*self.core)
    }

    fn insight(&self) -> Option<Insight> {
        self.learned()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::{Concurrency, Demand, Gate, LimiterExt, ManualClock, TokenBucket};

    #[test]
    fn an_owned_permit_of_a_rate_is_undone_by_its_gate() {
        let gate = Gate::builder(TokenBucket::per_second(10));
        let gate = gate.clock(ManualClock::new().clock()).build();
        let mut permit = gate.attempt_owned(Demand::of(4)).unwrap();
        let part = permit.split(3).unwrap();
        gate.undo(part);
        assert_eq!((gate.snapshot().available, gate.snapshot().granted), (9, 1));
        gate.undo(permit);
        assert_eq!(
            (gate.snapshot().available, gate.snapshot().granted),
            (10, 0)
        );
    }

    #[test]
    fn an_owned_permit_that_is_given_back_still_knows_its_gate() {
        let gate = Gate::new(Concurrency::new(2));
        let permit = gate.attempt_owned(Demand::ONE).unwrap();
        assert!(permit.gives_back());
        drop(permit);
        assert_eq!(gate.snapshot().in_use(), 0);
    }

    #[test]
    fn standing_is_the_same_by_the_word_and_behind_the_lock() {
        let time = ManualClock::new();
        let gate = Gate::builder(TokenBucket::per_second(10).burst(20));
        let gate = gate.clock(time.clock()).build();
        for _ in 0..20 {
            gate.try_acquire(1).unwrap().forget();
            time.advance(Duration::from_millis(30));
            assert_eq!(gate.standing(), gate.core.standing_inside());
        }
        let before = gate.standing();
        gate.close();
        assert_eq!(gate.standing(), before);
    }
}
