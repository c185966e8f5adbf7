//! Looking at a gate.

use super::Gate;
use super::asking::charge;
use super::locked::{Counted, Inside, Turn};
use super::word::{Core, PARKED};
use crate::queue::Counts;
use crate::sync::{Ordering, lock};
use crate::{
    Demand, Denied, Moment, Packed, PackedTake, Reason, Refusal, Rule, Snapshot, Standing,
};

impl<R: Rule> Core<R> {
    /// Looks at the gate without changing it.
    pub(super) fn look<T>(&self, see: impl FnOnce(&R, &Inside<R>, &R::State, Moment) -> T) -> T {
        let now = self.clock.precise_now();
        let inside = lock(&self.inside);
        let rule = inside.changed.as_deref().unwrap_or(&self.rule);
        match &inside.state {
            Some(state) => see(rule, &inside, state, now),
            None => see(rule, &inside, &self.unparked(now), now),
        }
    }

    /// The answer that taking would have; if `charged`, including what the rule would remember of a refusal. It takes
    /// nothing and does not park the word: other threads stay on the fast path.
    pub(super) fn estimate(&self, demand: Demand, charged: bool) -> Result<(), Denied> {
        let now = self.clock.precise_now();
        if let Some(answer) = self.estimate_by_word(now, demand) {
            return answer;
        }
        self.enter(now, |turn| {
            turn.peek(demand, None).map_err(|refusal| {
                if !(charged && R::REMEMBERS_REFUSALS) {
                    let refusal = turn.explain(demand, refusal);
                    return self.denied(turn.rule, refusal, turn.state, turn.now);
                }
                // The answer includes what this refusal itself would change.
                let mut state = turn.state.clone();
                let refusal = charge(turn.rule, &mut state, turn.now, demand.cost, refusal);
                let mut counted = Turn {
                    rule: turn.rule,
                    inside: turn.inside,
                    state: &mut state,
                    now: turn.now,
                    wakeups: turn.wakeups,
                };
                counted.inside.forecast.forget();
                let refusal = counted.explain(demand, refusal);
                counted.inside.forecast.forget();
                self.denied(turn.rule, refusal, &state, turn.now)
            })
        })
    }

    /// The same if the state is in the word: then no demand waits, and the rule is the first one.
    fn estimate_by_word(&self, now: Moment, demand: Demand) -> Option<Result<(), Denied>> {
        let state = self.state_by_word(now).or_else(|| {
            // The word may be of another epoch: it cannot be refreshed while the lock is held.
            let inside = lock(&self.inside);
            let here = inside.state.is_none() && !self.is_parked();
            here.then(|| self.unparked(now))
        })?;
        let rule = &self.rule;
        let answer = if demand.cost > rule.limit() {
            Err(Refusal::until_returned().with_reason(Reason::TooLarge))
        } else {
            rule.peek(&state, now, demand.cost.max(1))
        };
        Some(answer.map_err(|refusal| self.denied(rule, refusal, &state, now)))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let (granted, denied) = self.totals.sum();
        let counted = |count: u64| if self.totals.are_counted() { count } else { 0 };
        self.look(|rule, inside, state, now| Snapshot {
            limit: rule.limit(),
            available: rule.available(state, now),
            in_use: rule.in_use(state, now),
            queue_bound: inside.queue.map_or(0, |queue| queue.bound),
            queued: inside.waiters.queued(),
            waiters: inside.waiters.count() as u64,
            granted: counted(
                (granted + inside.counts.granted).saturating_sub(inside.counts.undone),
            ),
            denied: counted(denied + inside.counts.denied),
            evicted: inside.counts.evicted,
            cancelled: inside.counts.cancelled,
        })
    }

    /// The standing behind the lock.
    #[inline(never)]
    pub(super) fn standing_inside(&self) -> Standing {
        self.look(|rule, _, state, now| Standing::of(rule, state, now))
    }

    /// Checks whether anything is left, or a demand may wait.
    #[inline]
    pub(super) fn check_saturation(&self) -> Result<(), Denied> {
        let now = if R::Fast::TIMELESS {
            Moment::ORIGIN
        } else {
            self.clock.now()
        };
        let word = self.word.load(Ordering::Acquire);
        let epoch = self.epoch.load(Ordering::Acquire);
        // While the state is in the word no demand waits, and if one more fits none needs to.
        if word & PARKED == 0
            && now.as_nanos() >> self.epoch_bits == epoch
            && matches!(
                R::Fast::take_packed(&self.rule, word, now, 1),
                PackedTake::Taken(_)
            )
        {
            return Ok(());
        }
        self.check_saturation_inside()
    }

    #[inline(never)]
    fn check_saturation_inside(&self) -> Result<(), Denied> {
        self.look(|rule, inside, state, now| {
            if inside.closed {
                let refusal = Refusal::until_returned().with_reason(Reason::Closed);
                return Err(self.denied(rule, refusal, state, now));
            }
            let in_use = u128::from(rule.in_use(state, now)) + inside.waiters.weight();
            let limit = u128::from(rule.limit());
            let full = match inside.queue {
                None if R::RETURNS_PERMITS => in_use >= limit,
                None => true,
                Some(queue) if R::RETURNS_PERMITS || counts_excess(queue.counts, rule) => {
                    in_use >= limit + u128::from(queue.bound)
                }
                Some(queue) => inside.waiters.queued() >= queue.bound,
            };
            let answer = rule.peek(state, now, 1);
            if !full || (!R::RETURNS_PERMITS && answer.is_ok()) {
                return Ok(());
            }
            let alone = !R::RETURNS_PERMITS && inside.waiters.is_empty();
            let refusal = match answer {
                Err(refusal) if alone => refusal,
                _ => Refusal::until_returned(),
            };
            let refusal = refusal.with_reason(Reason::Saturated);
            Err(self.denied(rule, refusal, state, now))
        })
    }
}

impl<R: Rule> Gate<R> {
    /// Returns a copy of the numbers of the gate: the limit, the numbers in use and waiting, and totals. It takes the
    /// lock.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    ///
    /// let gate = Gate::new(Concurrency::new(10));
    /// let _permit = gate.try_acquire(4)?;
    /// let snapshot = gate.snapshot();
    /// assert_eq!((snapshot.limit(), snapshot.in_use(), snapshot.available()), (10, 4, 6));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.core.snapshot()
    }

    /// Checks whether [`try_acquire`](Self::try_acquire) would grant the demand now. It takes nothing and counts
    /// nothing.
    ///
    /// `Ok` is no promise: another caller may take the permits first.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(2)).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(1)?;
    /// assert!(gate.estimate(1).is_ok());
    /// let denied = gate.estimate(2).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    /// assert_eq!(gate.snapshot().available(), 1);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the refusal that `try_acquire` would return.
    pub fn estimate(&self, demand: impl Into<Demand>) -> Result<(), Denied> {
        self.core.estimate(demand.into(), true)
    }

    /// Checks whether there is room for another demand. See
    /// [`LimiterExt::check_saturation`](crate::LimiterExt::check_saturation).
    ///
    /// # Errors
    ///
    /// Returns a refusal with the reason [`Saturated`](crate::Reason::Saturated) if there is no room.
    #[inline]
    pub fn check_saturation(&self) -> Result<(), Denied> {
        self.core.check_saturation()
    }

    /// The moment from which the gate is no worse than a new one; `None` while it is in use.
    pub(crate) fn evictable_from(&self, now: Moment) -> Option<Moment> {
        if !self.is_alone() {
            return None;
        }
        self.core.look(|rule, inside, state, _| {
            let used =
                !inside.waiters.is_empty() || (R::RETURNS_PERMITS && rule.in_use(state, now) > 0);
            if used {
                None
            } else {
                rule.evictable_from(state, now)
            }
        })
    }

    /// The counts of this gate. `shared` says whether its totals are those of the keyed limit that it is part of.
    pub(crate) fn counted(&self, shared: bool) -> Counted {
        let (granted, denied) = if shared {
            (0, 0)
        } else {
            self.core.totals.sum()
        };
        self.core.look(|_, inside, _, _| Counted {
            granted: granted + inside.counts.granted,
            denied: denied + inside.counts.denied,
            ..inside.counts
        })
    }

    /// Returns the numbers to report to callers: the limit, the remainder, and the time until more is available. See
    /// [`Standing`].
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Gate, ManualClock, Quota};
    /// use std::time::Duration;
    ///
    /// let gate = Gate::builder(FixedWindow::new(Quota::per_minute(10))).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(4)?;
    /// let standing = gate.standing();
    /// assert_eq!((standing.limit, standing.remaining), (10, Some(6)));
    /// assert_eq!(standing.reset, Some(Duration::from_secs(60)));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub fn standing(&self) -> Standing {
        let core = &*self.core;
        let now = match R::Fast::TIMELESS {
            true => Moment::ORIGIN,
            // A late reading may precede the last grant; the remainder would then be a token too low.
            false => core.clock.precise_now(),
        };
        match core.state_by_word(now) {
            // With the state in the word, the rule is the first one.
            Some(state) => Standing::of(&core.rule, &state, now),
            None => core.standing_inside(),
        }
    }
}

/// Whether permits in use count against the bound of the queue, in addition to waiting costs.
pub(super) fn counts_excess<R: Rule>(counts: Counts, rule: &R) -> bool {
    counts == Counts::Excess && rule.has_one_limit()
}
