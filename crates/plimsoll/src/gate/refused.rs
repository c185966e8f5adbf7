//! What a gate tells those it refuses.

use super::core::Core;
use super::inside::Turn;
use crate::{Demand, Denied, Moment, Reason, Refusal, Rule};

impl<R: Rule> Core<R> {
    /// Counts and explains a refusal at once.
    pub(super) fn refused(
        &self,
        turn: &mut Turn<'_, R>,
        demand: Demand,
        refusal: Refusal,
    ) -> Denied {
        turn.inside.counts.denied += 1;
        let refusal = turn.explain(demand, refusal);
        self.denied(refusal, turn.state, turn.now)
    }

    /// Counts a refusal of the short way, and tells the caller about it.
    ///
    /// Inlined, so that a caller who does not look at the refusal does not pay for it.
    #[inline(always)]
    pub(super) fn denied_shortly(
        &self,
        refusal: Refusal,
        word: u64,
        now: Moment,
        cost: u32,
    ) -> Denied {
        self.totals.denied();
        // Whoever asked for one and did not get it knows that there is nothing.
        if cost == 1 {
            return self.refusal(refusal, now, 0);
        }
        self.denied_larger(refusal, word, now, cost)
    }

    #[inline(never)]
    fn denied_larger(&self, refusal: Refusal, word: u64, now: Moment, cost: u32) -> Denied {
        let state = self.rule.unpack(word, now);
        if cost > self.rule.limit() {
            return self.denied(
                Refusal::until_given_back().because(Reason::TooLarge),
                &state,
                now,
            );
        }
        self.refusal(refusal, now, self.rule.available(&state, now))
    }

    /// What a refusal tells the caller.
    pub(super) fn denied(&self, refusal: Refusal, state: &R::State, now: Moment) -> Denied {
        let full_at = self.rule.full_at(state, now).unwrap_or(Moment::NEVER);
        self.refusal(
            refusal.full_at(full_at),
            now,
            self.rule.available(state, now),
        )
    }

    #[inline(always)]
    fn refusal(&self, refusal: Refusal, now: Moment, remaining: u32) -> Denied {
        Denied::from_rule(refusal, now, (self.rule.limit(), remaining), self.name)
    }
}
