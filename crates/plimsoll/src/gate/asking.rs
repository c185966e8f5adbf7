//! Asking behind the lock, and what a gate answers when it refuses.

use super::locked::{Inside, Turn};
use super::resets::WideStamp;
use super::word::{ByWord, Core, Open};
use crate::events::EventKind;
use crate::queue::{Order, Ticket};
use crate::stamp::Stamp;
use crate::sync::lock;
use crate::{Demand, Denied, Moment, Permit, Priority, Reason, Refusal, Rule};

impl<R: Rule> Core<R> {
    /// Decides what the fast path left [open](Open), and returns the stamp of the grant; a refusal is counted and
    /// explained. Not inlined, so that the fast path stays small enough to be inlined, and called with numbers only, so
    /// that nothing has to be in memory for it.
    #[inline(never)]
    pub(super) fn take_slow(
        &self,
        open: Open,
        mut now: Moment,
        cost: u64,
        priority: Priority,
    ) -> Result<WideStamp, Denied> {
        match open {
            Open::Again => match self.take_by_word(now, cost) {
                ByWord::Granted => {
                    self.totals.granted();
                    return Ok(Stamp::at(now).widen());
                }
                ByWord::Refused(refusal, word) => {
                    return Err(self.denied_by_word(refusal, word, now, cost));
                }
                ByWord::Parked => {}
            },
            Open::Parked { timed: true } => {}
            // Behind the lock reading the clock costs little, and what waits there is always timed.
            Open::Parked { timed: false } => now = self.clock.now(),
        }
        // The demand does not wait, so its time-out does not matter.
        let demand = Demand::of(cost).priority(priority);
        self.take_locked(now, demand)
    }

    /// The permit for what was taken on a slow path.
    #[inline]
    pub(super) fn permit_of(&self, taken: WideStamp, demand: Demand) -> Permit<'_> {
        let taken = taken.narrow();
        Permit::new(self, taken.grant(demand), R::RETURNS_PERMITS).in_era(taken.era)
    }

    #[inline(always)]
    pub(super) fn take_locked(&self, now: Moment, demand: Demand) -> Result<WideStamp, Denied> {
        let answer = match self.take_parked(now, demand.cost) {
            Some(answer) => answer,
            None => self.take_in_turn(self.clock.precise_now(), demand),
        };
        if answer.is_err() {
            self.tick_if_due(now);
        }
        answer
    }

    #[inline(never)]
    fn take_in_turn(&self, now: Moment, demand: Demand) -> Result<WideStamp, Denied> {
        self.enter(now, |turn| match turn.take(demand) {
            Ok(()) => Ok(turn.stamp().widen()),
            Err(refusal) => Err(self.refused(turn, demand, refusal)),
        })
    }

    /// The path of rules whose state never fits a word: behind the lock, but without serving, because no demand waits.
    #[inline(always)]
    fn take_parked(&self, now: Moment, cost: u64) -> Option<Result<WideStamp, Denied>> {
        let mut inside = lock(&self.inside);
        let busy = inside.closed || !inside.waiters.is_empty() || !inside.listeners.is_empty();
        if cost == 0 || busy || inside.resets.are_over(now) {
            return None;
        }
        inside.latest = inside.latest.max(now);
        let mut now = inside.latest;
        let Inside {
            state,
            changed,
            counts,
            resets,
            latest,
            ..
        } = &mut *inside;
        let rule = changed.as_deref().unwrap_or(&self.rule);
        let state = state.as_mut()?;
        if cost > rule.limit() {
            return None;
        }
        let mut answer = rule.take(state, now, cost);
        if let Err(refusal) = answer
            && let Some(precise) = self.refine(now, refusal)
        {
            now = precise.max(now);
            *latest = now;
            answer = rule.take(state, now, cost);
        }
        match answer {
            Ok(()) => {
                counts.granted += 1;
                Some(Ok(resets.stamp(rule.recorded_at(state, now)).widen()))
            }
            Err(refusal) => {
                if let Some(learning) = rule.learning() {
                    learning.refused();
                }
                let refusal = charge(rule, state, now, cost, refusal);
                let denied = self.denied(rule, refusal, state, now);
                counts.denied += 1;
                Some(Err(denied))
            }
        }
    }

    /// Takes now, for a caller that will wait if that is refused.
    #[inline]
    pub(super) fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.attempt_by_word(demand) {
            Some(grant) => Ok(Permit::new(self, grant, R::RETURNS_PERMITS)),
            None => self.attempt_inside(self.clock.precise_now(), demand),
        }
    }

    #[inline(never)]
    fn attempt_inside(&self, now: Moment, demand: Demand) -> Result<Permit<'_>, Denied> {
        let taken = self.enter(now, |turn| match turn.take(demand) {
            Ok(()) => Ok(turn.stamp()),
            Err(refusal) => Err(self.denied(turn.rule, refusal, turn.state, turn.now)),
        })?;
        Ok(Permit::new(self, taken.grant(demand), R::RETURNS_PERMITS).in_era(taken.era))
    }

    /// Counts and explains a refusal at once.
    pub(super) fn refused(
        &self,
        turn: &mut Turn<'_, R>,
        demand: Demand,
        refusal: Refusal,
    ) -> Denied {
        turn.inside.counts.denied += 1;
        if let Some(learning) = turn.rule.learning()
            && is_for_want_of_room(refusal.reason)
        {
            learning.refused();
        }
        let refusal = charge(turn.rule, turn.state, turn.now, demand.cost, refusal);
        if R::REMEMBERS_REFUSALS {
            // A refusal that the rule remembers delays the waiters, and with them this demand.
            turn.inside.forecast.forget();
        }
        let refusal = turn.explain(demand, refusal);
        turn.emit(EventKind::Rejected {
            priority: demand.priority,
            reason: refusal.reason,
        });
        self.denied(turn.rule, refusal, turn.state, turn.now)
    }

    /// The error of a waiter that lost its place.
    pub(super) fn lost(&self, reason: Reason) -> Denied {
        self.look(|rule, _, state, now| {
            let refusal = Refusal::until_returned().with_reason(reason);
            self.denied(rule, refusal, state, now)
        })
    }

    /// The error of a refusal.
    pub(super) fn denied(
        &self,
        rule: &R,
        refusal: Refusal,
        state: &R::State,
        now: Moment,
    ) -> Denied {
        let full_at = rule
            .full_at(state, now)
            .map_or(Moment::NEVER, |at| at.max(now));
        let room = (rule.limit(), rule.remaining(state, now));
        Denied::from_rule(refusal.with_full_at(full_at), now, room, self.name)
    }
}

impl<R: Rule> Turn<'_, R> {
    /// The amount that must stay free for waiters if a demand takes before them: the owner of `place`, or a new demand
    /// without one. Returns a refusal if the demand may not take before them, regardless of the rule.
    fn admit(&self, demand: Demand, place: Option<Ticket>) -> Result<u64, Refusal> {
        if self.inside.closed {
            return Err(Refusal::until_returned().with_reason(Reason::Closed));
        }
        if demand.cost > self.rule.limit() {
            return Err(Refusal::until_returned().with_reason(Reason::TooLarge));
        }
        let (waiters, class) = (&self.inside.waiters, demand.priority.class());
        let reserved = match place {
            Some(ticket) => waiters.reserved_before(ticket, self.order()),
            None if !waiters.any_at_least(class) || self.order() == Order::Lifo => Some(0),
            None if waiters.any_for_several() => waiters.reserved_from(class),
            None => None,
        };
        reserved.ok_or_else(|| self.behind_waiters(demand))
    }

    /// Takes now, or returns the refusal.
    pub(super) fn take(&mut self, demand: Demand) -> Result<(), Refusal> {
        let reserved = self.admit(demand, None)?;
        if reserved > 0 {
            self.fits(demand.cost, reserved)?;
        }
        take(self.rule, self.state, self.now, demand.cost)?;
        self.inside.counts.granted += 1;
        self.inside.forecast.forget();
        self.emit(EventKind::Processing {
            priority: demand.priority,
        });
        Ok(())
    }

    /// What [`take`](Self::take) would answer, from the place of one that waits or without one.
    pub(super) fn peek(&self, demand: Demand, place: Option<Ticket>) -> Result<(), Refusal> {
        let reserved = self.admit(demand, place)?;
        self.fits(demand.cost, reserved)
    }

    /// Whether `cost` could be taken now if `reserved` had been taken before.
    pub(super) fn fits(&self, cost: u64, reserved: u64) -> Result<(), Refusal> {
        if reserved == 0 {
            return peek(self.rule, self.state, self.now, cost);
        }
        let mut state = self.state.clone();
        take(self.rule, &mut state, self.now, reserved)?;
        peek(self.rule, &state, self.now, cost)
    }

    /// The refusal of a demand that may not pass the waiters: with the reason of the rule, if it has one. The queue adds
    /// when it would be granted.
    fn behind_waiters(&self, demand: Demand) -> Refusal {
        let refusal = peek(self.rule, self.state, self.now, demand.cost).err();
        let reason = refusal.map_or(Reason::Exhausted, |refusal| refusal.reason);
        Refusal::until(Moment::NEVER).with_reason(reason)
    }

    /// Completes a refusal that the rule has counted: while others wait, when it could be granted depends on them too.
    pub(super) fn explain(&mut self, demand: Demand, mut refusal: Refusal) -> Refusal {
        let for_others = matches!(refusal.reason, Reason::QueueFull | Reason::TimedOut);
        if !self.inside.waiters.is_empty() && (for_others || refusal.reason.is_passing()) {
            refusal.ready_at = self.hint(demand);
        }
        refusal
    }
}

/// Takes `cost`; a cost of 0 takes nothing, and fits when 1 would.
#[inline]
pub(crate) fn take<R: Rule>(
    rule: &R,
    state: &mut R::State,
    now: Moment,
    cost: u64,
) -> Result<(), Refusal> {
    if cost > 0 {
        return rule.take(state, now, cost);
    }
    peek(rule, state, now, 0)
}

/// What [`take`] would answer.
pub(super) fn peek<R: Rule>(
    rule: &R,
    state: &R::State,
    now: Moment,
    cost: u64,
) -> Result<(), Refusal> {
    rule.peek(state, now, cost.max(1))
}

/// Lets the rule remember a refusal, if there was not enough room.
pub(super) fn charge<R: Rule>(
    rule: &R,
    state: &mut R::State,
    now: Moment,
    cost: u64,
    refusal: Refusal,
) -> Refusal {
    if R::REMEMBERS_REFUSALS && is_for_want_of_room(refusal.reason) {
        rule.refused(state, now, cost, refusal)
    } else {
        refusal
    }
}

/// Whether a larger limit would have helped.
pub(super) fn is_for_want_of_room(reason: Reason) -> bool {
    !matches!(reason, Reason::TooLarge | Reason::Closed)
}
