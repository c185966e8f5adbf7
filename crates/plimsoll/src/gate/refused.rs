//! What a gate tells those it refuses.

use super::core::Core;
use super::inside::Turn;
use crate::events::EventKind;
use crate::{Demand, Denied, Moment, Packed, Reason, Refusal, Rule};

impl<R: Rule> Core<R> {
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
            // A refusal that counts puts those who wait off, and with them the one who is refused.
            turn.inside.forecast.forget();
        }
        let refusal = turn.explain(demand, refusal);
        turn.tell(EventKind::Rejected {
            priority: demand.priority,
            reason: refusal.reason,
        });
        self.denied(turn.rule, refusal, turn.state, turn.now)
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
            self.turned_away_shortly(now);
            return self.refusal(refusal, now, 0);
        }
        self.denied_larger(refusal, word, now, cost)
    }

    #[inline(never)]
    fn denied_larger(&self, refusal: Refusal, word: u64, now: Moment, cost: u32) -> Denied {
        let state = R::Fast::unpack(&self.rule, word, now);
        if cost > self.rule.limit() {
            let refusal = Refusal::until_returned().because(Reason::TooLarge);
            return self.denied(&self.rule, refusal, &state, now);
        }
        self.turned_away_shortly(now);
        self.refusal(refusal, now, self.rule.available(&state, now))
    }

    #[inline]
    fn turned_away_shortly(&self, now: Moment) {
        if let Some(learning) = self.rule.learning() {
            learning.refused();
            self.tick_if_due(now);
        }
    }

    /// What a refusal tells the caller.
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
        Denied::from_rule(refusal.full_at(full_at), now, room, self.name)
    }

    #[inline(always)]
    fn refusal(&self, refusal: Refusal, now: Moment, remaining: u32) -> Denied {
        Denied::from_rule(refusal, now, (self.rule.limit(), remaining), self.name)
    }
}

/// Lets the rule remember a refusal, if there was not enough room.
pub(super) fn charge<R: Rule>(
    rule: &R,
    state: &mut R::State,
    now: Moment,
    cost: u32,
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
