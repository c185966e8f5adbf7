//! Releasing: permits that are returned, undone or settled, and charges after the fact.

use std::sync::Arc;

use super::Gate;
use super::learning::{Ended, teaches};
use super::locked::Turn;
use super::word::{Core, MARK, PARKED, RETURNED, STRAY};
use crate::grant::Era;
use crate::learning::Load;
use crate::name::Name;
use crate::stamp::Stamp;
use crate::sync::{Ordering, lock};
use crate::wakeups::BATCH;
use crate::{Grant, Metadata, Moment, Outcome, Priority, Rule, Shareable, Source};

impl<R: Rule> Source for Core<R> {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        let how = (grant.priority, grant.timed);
        self.give_back_parts(grant.cost, grant.taken, how, outcome);
    }

    #[inline]
    fn give_back_parts(&self, cost: u64, taken: Moment, how: (Priority, bool), outcome: Outcome) {
        if !R::RETURNS_PERMITS {
            return;
        }
        // If demands often wait, the word is usually parked and the addition would fail. It is then skipped, so that
        // the cache line of the word is not written.
        if Self::HANDS_ON && self.handed.is_used() && self.is_parked() {
            return self.give_back_parked(cost, taken, how, outcome);
        }
        let learns = self.rule.learning().is_some();
        let limit = if learns { self.rule.limit() } else { 0 };
        // The release ordering puts the work under the permit before the work of the thread that takes next.
        let word = self.word.fetch_add(cost & RETURNED, Ordering::AcqRel);
        if word & PARKED != 0 {
            return self.give_back_parked(cost, taken, how, outcome);
        }
        let (priority, timed) = how;
        let grant = Grant {
            cost,
            taken,
            priority,
            timed,
        };
        if learns && teaches(grant, outcome) {
            self.learn_by_word(Ended::new(grant, outcome), word, limit);
        }
    }

    fn undo(&self, grant: Grant, whole: bool) {
        self.undo_of(grant, whole, Era::default());
    }

    fn undo_of(&self, grant: Grant, whole: bool, era: Era) {
        self.put_back(grant, whole, era);
    }

    fn now(&self) -> Option<Moment> {
        Some(self.clock.now())
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.name.and_then(Name::metadata)
    }
}

impl<R: Rule> Shareable for Core<R> {
    fn to_shared(&self) -> Arc<dyn Source> {
        // Every reference to a core is held through an `Arc`.
        match lock(&self.inside).me.upgrade() {
            Some(me) => me,
            None => unreachable!("a core lives in an Arc"),
        }
    }
}

impl<R: Rule> Core<R> {
    /// Undoes the taking of a cost. `whole` says whether that undoes a whole grant.
    fn put_back(&self, grant: Grant, whole: bool, era: Era) {
        let at = grant.taken;
        // This reads the same clock as grants on the fast path, so a grant that is undone in its own tick is undone exactly. By the
        // precise time, the refill of up to a tick would seem to have come since.
        self.enter(self.clock.now().max(at), |turn| {
            turn.inside.counts.undone += u64::from(whole);
            if turn.put_back(Stamp { at, era }, grant.cost) {
                turn.emit_processed(grant, Outcome::Ignore);
                turn.serve(BATCH);
            }
        });
    }

    /// Repeats behind the lock an addition that hit a parked word. Called with what fits registers, as the last thing: the fast
    /// path then stores and saves nothing.
    #[inline(never)]
    fn give_back_parked(
        &self,
        cost: u64,
        taken: Moment,
        (priority, timed): (Priority, bool),
        outcome: Outcome,
    ) {
        // The value has only grown since it was read.
        let strayed = self.word.load(Ordering::Relaxed) > MARK + STRAY;
        let plain = Self::HANDS_ON && !strayed && self.rule.learning().is_none();
        if plain && self.hand_on(taken, cost) {
            return;
        }
        let grant = Grant {
            cost,
            taken,
            priority,
            timed,
        };
        self.give_back_locked(grant, outcome, strayed);
    }

    /// The same in a turn.
    #[inline(never)]
    fn give_back_locked(&self, grant: Grant, outcome: Outcome, strayed: bool) {
        let learns = self.rule.learning().is_some() && teaches(grant, outcome);
        // The time is read before the lock is taken, because waiting for the lock is not part of the work.
        let now = self.clock.now();
        let load = self.enter(now, |turn| {
            let load = learns.then(|| turn.load());
            let Grant { taken, cost, .. } = grant;
            turn.rule.refund(turn.state, turn.now, taken, cost);
            turn.inside.forecast.forget();
            turn.emit_processed(grant, outcome);
            turn.serve(BATCH);
            if strayed {
                self.word.swap(MARK, Ordering::AcqRel);
            }
            load
        });
        if let Some(load) = load {
            self.learn(Ended::new(grant, outcome), Load { now, ..load });
        }
    }
}

impl<R: Rule> Turn<'_, R> {
    /// Refunds a grant of that stamp. Returns false if the grant was before the last reset, which has refunded it already. Where
    /// permits are returned, a reset does not return those in use.
    pub(super) fn put_back(&mut self, taken: Stamp, cost: u64) -> bool {
        if !R::RETURNS_PERMITS && !self.inside.resets.are_before(taken) {
            return false;
        }
        self.rule.refund(self.state, self.now, taken.at, cost);
        self.inside.forecast.forget();
        true
    }
}

impl<R: Rule> Gate<R> {
    /// Takes `cost` after the fact, for work with a cost that is known only when the work is done. It cannot be
    /// refused.
    ///
    /// A [`TokenBucket`](crate::TokenBucket) goes into debt, and later demands wait until it is refilled. A limit that
    /// cannot go into debt takes what is available, and the rest is not charged. A limit whose permits are returned
    /// charges nothing, since no permit would return the cost.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let tokens = Gate::builder(TokenBucket::per_second(100)).clock(time.clock()).build();
    /// tokens.charge(300); // the answer of a model was longer than expected
    /// let denied = tokens.try_acquire(1).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(2010)));
    /// ```
    pub fn charge(&self, cost: u64) {
        if R::RETURNS_PERMITS {
            return;
        }
        self.core.enter(self.core.clock.precise_now(), |turn| {
            turn.rule.charge(turn.state, turn.now, cost);
            turn.inside.forecast.forget();
        });
    }

    /// Corrects a permit of this gate that turned out to cost `actual`. See [`LimiterExt::settle`](crate::LimiterExt::settle).
    pub(crate) fn settle_grant(&self, grant: Grant, era: Era, actual: u64) {
        if actual == grant.cost {
            return;
        }
        let granted = Stamp {
            at: grant.taken,
            era,
        };
        self.core.enter(self.core.clock.precise_now(), |turn| {
            let mut taken = grant.taken;
            let resets = &turn.inside.resets;
            if !resets.are_before(granted) {
                // A reset has refunded the grants before it, or counts them in a sum: nothing of that is refunded, but what is
                // missing is added.
                match resets.carried(granted) {
                    Some(since) if actual > grant.cost => taken = since,
                    _ => return,
                }
            }
            let costs = (grant.cost, actual);
            turn.rule.settle(turn.state, turn.now, taken, costs);
            turn.inside.forecast.forget();
            turn.serve(BATCH);
        });
    }
}
