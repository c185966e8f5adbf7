//! The trait [`PerKey`] for keyed limits, and changes of the state of one key without a decision.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

use super::Keyed;
use super::shared::is_timeless;
use super::short::{Asked, Open};
use super::step::{Decided, Done, How, Step};
use crate::limiter::Target;
use crate::name::Name;
use crate::stamp::Stamp;
use crate::{
    Acquire, Clock, Demand, Denied, Metadata, Moment, PerKey, Permit, Reservation, Rule, Standing,
};

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// [`try_acquire`](Self::try_acquire) for a rule that does not depend on time: a known key has a gate, which
    /// decides.
    #[inline]
    pub(super) fn try_acquire_timeless<Q>(
        &self,
        key: &Q,
        demand: Demand,
    ) -> Result<Permit<'_>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        match self.shared.timeless_gate(key) {
            Some(gate) => gate.try_acquire_owned(demand),
            None => self.try_acquire_long(key, demand, self.shared.late_now()),
        }
    }

    /// Undoes `permit`, which was granted to `key`, as if it had never been granted. See [`Permit::undo`].
    ///
    /// A permit of a rate does not know its key, so [`Permit::undo`] does nothing for it. A permit of a limit whose
    /// permits are returned does know it.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_hour(10)));
    /// let permit = per_tenant.try_acquire("red", 4)?;
    /// per_tenant.undo("red", permit);
    /// assert_eq!(per_tenant.standing("red").remaining, Some(10));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn undo<Q>(&self, key: &Q, permit: Permit<'_>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let era = permit.era();
        permit.undo_by(|grant, whole| {
            let taken = Stamp {
                at: grant.taken,
                era,
            };
            let shared = &*self.shared;
            // The same reading as grants on the fast path have, as in a gate.
            let now = shared.gates.clock.now().max(grant.taken);
            let gate = shared.restore(key, now, taken, |turn| {
                if grant.cost > 0 {
                    let state = turn.state;
                    turn.rule.refund(state, turn.now, grant.taken, grant.cost);
                }
            });
            match gate {
                // Without the lock of the shard: it may wake tasks.
                Some(gate) => gate.source().undo_of(grant, whole, era),
                None if whole => shared.gates.room.undone(),
                None => {}
            }
        });
    }

    /// Takes `cost` for `key` after the fact, or as much of it as can be taken. See
    /// [`Gate::charge`](crate::Gate::charge).
    ///
    /// ```
    /// use plimsoll::{Keyed, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let tokens: Keyed<String, _> =
    ///     Keyed::builder(TokenBucket::per_second(100)).clock(time.clock()).build();
    /// tokens.charge("red", 150); // an answer was longer than expected
    /// let denied = tokens.try_acquire("red", 1).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(510)));
    /// assert!(tokens.try_acquire("blue", 100).is_ok());
    /// ```
    pub fn charge<Q>(&self, key: &Q, cost: u64)
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        if R::RETURNS_PERMITS || cost == 0 {
            return;
        }
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        let step = shared.step(key, now, |turn| {
            turn.rule.charge(turn.state, turn.now, cost);
            Done::Answer(())
        });
        // A key for which there is no room is refused anyway.
        if let Ok(Step::Gate(gate)) = step {
            gate.charge(cost);
        }
    }

    /// Corrects the cost of a permit of `key` after the work, as if `cost` had been taken when the permit was granted.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_hour(100)));
    /// let mut permit = per_tenant.try_acquire("red", 40)?; // an estimate
    /// per_tenant.settle("red", &mut permit, 25);
    /// assert_eq!(per_tenant.standing("red").remaining, Some(75));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn settle<Q>(&self, key: &Q, permit: &mut Permit<'_>, cost: u64)
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        if R::RETURNS_PERMITS {
            // The unused part is returned at once. There is no permit for a higher cost.
            drop(permit.split(permit.cost().saturating_sub(cost)));
            return;
        }
        let Some((grant, era)) = permit.settle(cost) else {
            return;
        };
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now().max(grant.taken);
        let gate = if cost <= grant.cost {
            let taken = Stamp {
                at: grant.taken,
                era,
            };
            shared.restore(key, now, taken, |turn| {
                let costs = (grant.cost, cost);
                turn.rule.settle(turn.state, turn.now, grant.taken, costs);
            })
        } else {
            let known = match shared.view(key, now, |_, _, seen| seen.known) {
                Step::Done(known) => known,
                Step::Gate(_) => true,
            };
            let step = shared.step(key, now, |turn| {
                let mut estimate = grant.cost;
                let full_at = turn.rule.full_at(turn.state, turn.now);
                if !known && full_at.is_some_and(|full_at| full_at <= turn.now) {
                    // The key was evicted because it was as good as new, and nothing has been taken since: so the whole
                    // cost is taken from a state that was new then.
                    *turn.state = turn.rule.fresh_key(grant.taken);
                    estimate = 0;
                }
                let costs = (estimate, cost);
                turn.rule.settle(turn.state, turn.now, grant.taken, costs);
                Done::Answer(())
            });
            match step {
                Ok(Step::Gate(gate)) => Some(gate),
                // A key for which there is no room is refused anyway.
                Ok(Step::Done(())) | Err(_) => None,
            }
        };
        if let Some(gate) = gate {
            gate.settle_grant(grant, era, cost);
        }
    }

    /// Returns the standing of `key`: its limit, the remainder, and the time until more is available. It stores no key.
    ///
    /// A key without a state has the standing of a new key.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_hour(10)));
    /// per_tenant.try_acquire("red", 4)?;
    /// assert_eq!(per_tenant.standing("red").remaining, Some(6));
    /// assert_eq!(per_tenant.standing("blue").remaining, Some(10));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn standing<Q>(&self, key: &Q) -> Standing
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // A late reading may precede the last grant; the remainder would then be a token too low.
        let now = self.shared.gates.clock.precise_now();
        let step = self.shared.view(key, now, |rule, state, seen| {
            Standing::of(rule, state, seen.now)
        });
        match step {
            Step::Done(standing) => standing,
            Step::Gate(gate) => gate.standing(),
        }
    }

    /// Takes, and returns the standing of the key after that, in one step. `None` if the fast path cannot decide: then
    /// nothing is taken or decided.
    #[doc(hidden)]
    #[inline]
    pub fn take_now<Q>(&self, key: &Q, cost: u64) -> Option<Standing>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        if R::RETURNS_PERMITS {
            return None;
        }
        let standing = match self.shared.take_seen(key, cost) {
            Ok(standing) => standing,
            Err(new) => self.take_new(key, cost, new?)?,
        };
        self.shared.gates.totals.granted();
        Some(standing)
    }

    /// The same for a key that was unknown a moment ago.
    fn take_new<Q>(&self, key: &Q, cost: u64, asked: Asked) -> Option<Standing>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let demand = Demand::of(cost);
        match self.shared.decide(key, demand, asked, How::Attempt) {
            Ok(Decided::Granted(_)) => Some(self.standing(key)),
            Ok(Decided::Ask(_)) | Err(_) => None,
        }
    }

    /// Returns the standing of every key without a limit of its own, independent of usage: the limit and its window.
    #[must_use]
    pub fn promise(&self) -> Standing {
        let now = self.shared.gates.clock.now();
        Standing::of_rule(&*self.shared.shards[0].lock().rule, now)
    }
}

impl<K, Q, R, S> PerKey<Q> for Keyed<K, R, S>
where
    K: Hash + Eq + Borrow<Q> + From<Q::Owned> + Send + Sync + 'static,
    Q: Hash + Eq + ToOwned + Sync + ?Sized,
    R: Rule + Clone,
    S: BuildHasher + Send + Sync + 'static,
{
    #[inline]
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, key, demand)
    }

    #[inline]
    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        let shared = &*self.shared;
        let asked = if is_timeless::<R>() {
            if let Some(gate) = shared.timeless_gate(key) {
                return gate.attempt_owned(demand);
            }
            shared.late_now()
        } else {
            match shared.try_short(key, demand.cost) {
                Ok(now) => {
                    shared.gates.totals.granted();
                    return Ok(Permit::spent(demand.granted(now)));
                }
                Err(Open::Refused(denied)) => return Err(denied),
                Err(Open::At(asked)) => asked,
            }
        };
        match self.decide_open(key, demand, asked, How::Attempt)? {
            Decided::Granted(taken) => {
                shared.gates.totals.granted();
                Ok(Permit::spent(taken.grant(demand)).in_era(taken.era))
            }
            Decided::Ask(gate) => gate.attempt_owned(demand),
        }
    }

    #[inline(always)]
    fn attempt_owned(&self, key: &Q, demand: Demand) -> Option<Permit<'static>> {
        let now = self.spend(key, demand.cost)?;
        Some(Permit::spent(demand.granted(now)))
    }

    #[inline(always)]
    fn spend(&self, key: &Q, cost: u64) -> Option<Moment> {
        if is_timeless::<R>() {
            // Its keys have gates; callers that can wait ask those.
            return None;
        }
        let shared = &*self.shared;
        let now = shared.take_short(key, cost)?;
        shared.gates.totals.granted();
        Some(now)
    }

    #[inline]
    fn take_now(&self, key: &Q, cost: u64) -> Option<Standing> {
        Self::take_now(self, key, cost)
    }

    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static> {
        if !self.shared.gates.lets_wait(demand) {
            let answer = Self::try_acquire(self, key, demand);
            return Acquire::ready(answer.map(Permit::into_owned));
        }
        let (keyed, key) = (self.clone(), K::from(key.to_owned()));
        Acquire::from_future(async move { keyed.acquire(key.borrow(), demand).await })
    }

    fn reserve_owned(&self, key: &Q, demand: Demand) -> Result<Reservation<'static>, Denied> {
        Self::reserve_owned(self, key, demand)
    }

    fn undoes_exactly(&self) -> bool {
        self.shared.exact.load(Ordering::Relaxed)
    }

    fn has_queue(&self) -> bool {
        self.shared.gates.queue().is_some()
    }

    fn target(&self, key: &Q) -> Option<Result<Target, Denied>> {
        let now = self.shared.gates.clock.precise_now();
        let lease = self.shared.lease(key, now);
        Some(lease.map(|lease| Target::key(lease.into_key_gate())))
    }

    fn undo(&self, key: &Q, permit: Permit<'_>) {
        Self::undo(self, key, permit);
    }

    fn charge(&self, key: &Q, cost: u64) {
        Self::charge(self, key, cost);
    }

    fn settle(&self, key: &Q, permit: &mut Permit<'_>, cost: u64) {
        Self::settle(self, key, permit, cost);
    }

    fn clock(&self) -> Option<&Clock> {
        Some(&self.shared.gates.clock)
    }

    fn standing(&self, key: &Q) -> Standing {
        Self::standing(self, key)
    }

    fn promise(&self) -> Standing {
        Self::promise(self)
    }

    fn name(&self) -> Option<&str> {
        self.shared.gates.name.and_then(Name::as_str)
    }

    fn metadata(&self) -> Option<&Metadata> {
        Self::metadata(self)
    }
}
