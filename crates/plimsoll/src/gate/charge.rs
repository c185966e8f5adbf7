//! Taking after the fact.

use super::Gate;
use crate::grant::Era;
use crate::stamp::Stamp;
use crate::{Grant, Rule};

impl<R: Rule> Gate<R> {
    /// Takes after the fact: for work whose cost is known only when it is done. Nobody is asked, so nobody is refused.
    ///
    /// A [`TokenBucket`](crate::TokenBucket) goes into debt, which those who come later wait for. A limit that cannot
    /// is used up, and what is above that is not charged. A limit that is given back to charges nothing: there is
    /// no permit that would give it back.
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
    pub fn charge(&self, cost: u32) {
        if R::RETURNS_PERMITS {
            return;
        }
        self.core.enter(self.core.clock.precise_now(), |turn| {
            turn.rule.charge(turn.state, turn.now, cost);
            turn.inside.forecast.forget();
        });
    }

    /// Corrects a permit of this gate that turned out to cost `actual`. See [`Limiter::settle`](crate::Limiter::settle).
    pub(crate) fn settle_grant(&self, grant: Grant, era: Era, actual: u32) {
        if actual == grant.cost {
            return;
        }
        let granted = Stamp {
            at: grant.taken,
            era,
        };
        self.core.enter(self.core.clock.precise_now(), |turn| {
            // A reset has made good what was taken before it.
            if !turn.inside.resets.are_before(granted) {
                return;
            }
            let costs = (grant.cost, actual);
            turn.rule.settle(turn.state, turn.now, grant.taken, costs);
            turn.inside.forecast.forget();
            turn.serve();
        });
    }
}
