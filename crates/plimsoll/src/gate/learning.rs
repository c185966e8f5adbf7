//! Reports of a gate to a rule that learns, and how the gate applies the result.

use super::Gate;
use super::locked::Turn;
use super::word::Core;
use crate::learning::{Insight, Learning, Load, Sample};
use crate::wakeups::BATCH;
use crate::{Grant, Moment, Outcome, Packed, Rule};

/// Work that has ended.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    cost: u64,
    start: Moment,
    overload: bool,
}

impl Ended {
    #[inline]
    pub(super) fn new(grant: Grant, outcome: Outcome) -> Self {
        Self {
            cost: grant.cost,
            start: grant.taken,
            overload: outcome == Outcome::Overload,
        }
    }
}

/// Whether a rule learns from the work. It always learns from an overload.
#[inline]
pub(super) fn teaches(grant: Grant, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Success => grant.timed,
        Outcome::Overload => true,
        Outcome::Ignore => false,
    }
}

impl<R: Rule> Core<R> {
    /// The start of work that may be granted on the fast path, and whether the work is timed.
    ///
    /// Reading the processor's counter twice takes longer than a grant and a return. So at high rates
    /// a rule may choose the work that it learns from; for the rest only the tick of its start is known.
    ///
    /// For a rule that does not depend on time no clock is read; see [`Grant::is_dated`].
    #[inline(always)]
    pub(super) fn start(&self) -> (Moment, bool) {
        if R::Fast::TIMELESS {
            return (Moment::ORIGIN, false);
        }
        if let Some(learning) = self.rule.learning()
            && self.totals.are_counted()
            && let Some(tick) = self.clock.tick()
            && !learning.times(tick)
        {
            return (tick, false);
        }
        (self.clock.now(), true)
    }

    /// The number of permits that were granted without being timed.
    fn untimed(&self) -> u64 {
        let timed = self.rule.learning().and_then(|it| it.timed());
        timed.map_or(0, |timed| self.totals.sum().0.saturating_sub(timed))
    }

    /// Learns from work whose permit went back to `word`; `limit` was read before.
    #[inline]
    pub(super) fn learn_by_word(&self, ended: Ended, word: u64, limit: u64) {
        let now = self.clock.now();
        let in_use = self
            .rule
            .in_use(&R::Fast::unpack(&self.rule, word, now), now);
        // The word holds the remainder. If the limit has changed since, it may belong to either limit; the smaller one
        // overestimates nothing.
        let grown = self.rule.limit().saturating_sub(limit);
        let in_use = in_use.saturating_sub(grown);
        // No demand waits while the state is in the word.
        self.learn(ended, Load::of(now, in_use, 0));
    }

    /// Learns from work that ended during this turn.
    #[inline]
    pub(super) fn learn(&self, ended: Ended, load: Load) {
        let sample = Sample {
            start: ended.start,
            end: load.now,
            in_flight: load.in_flight.max(ended.cost),
            overload: ended.overload,
            refused: false,
            weight: 1,
        };
        if let Some(learning) = self.rule.learning()
            && learning.learn(sample, self.untimed(), load.queued)
        {
            self.adjust(load.now);
        }
    }

    /// Lets the rule learn from the passing of time, if a tick is due. A refused caller does this once it holds no
    /// lock: while all demands are refused, nothing else would.
    #[inline]
    pub(super) fn tick_if_due(&self, now: Moment) {
        if let Some(learning) = self.rule.learning()
            && now >= learning.tick_at()
        {
            self.tick(learning);
        }
    }

    #[cold]
    fn tick(&self, learning: &dyn Learning<R::State>) {
        let load = self.look(|rule, inside, state, now| {
            Load::of(now, rule.in_use(state, now), inside.waiters.queued())
        });
        if learning.tick(load) {
            self.adjust(load.now);
        }
    }

    /// Applies the limit that the rule has learned, and serves waiters that then fit.
    #[cold]
    fn adjust(&self, now: Moment) {
        self.enter(now, |turn| {
            let bound = turn.inside.queue.as_mut().map(|queue| &mut queue.bound);
            if let Some(learning) = turn.rule.learning() {
                learning.adjust(turn.state, bound);
            }
            turn.inside.forecast.forget();
            turn.serve(BATCH);
        });
    }
}

impl<R: Rule> Turn<'_, R> {
    /// The present load.
    pub(super) fn load(&self) -> Load {
        let in_use = self.rule.in_use(self.state, self.now);
        Load::of(self.now, in_use, self.inside.waiters.queued())
    }
}

impl<R: Rule> Gate<R> {
    /// What the rule has learned, if it learns. If looking taught it something the limit is adjusted.
    pub(crate) fn learned(&self) -> Option<Insight> {
        let core = &*self.core;
        let (insight, has_learned) = core.rule.learning()?.insight();
        if has_learned {
            core.adjust(core.clock.now());
        }
        Some(core.look(|rule, inside, _, _| Insight {
            limit: rule.limit(),
            queue: inside.queue.map(|queue| queue.bound),
            ..insight
        }))
    }
}
