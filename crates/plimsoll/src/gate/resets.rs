//! What a reset leaves behind: what was granted before it can no longer be undone.
//!
//! A moment alone does not tell what was granted before a reset from what was granted after it in the same instant. So
//! in the instant of a reset the state stays behind the lock, where everything happens in one order, and what is
//! granted there says after how many resets of the instant it was. From the next instant on the moment tells, and the
//! state goes back into the word: grants on the fast path neither know nor tell of any of this.

use crate::permit::Era;
use crate::{Demand, Grant, Moment};

/// When something was granted, seen from behind the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) at: Moment,
    pub(crate) era: Era,
}

impl Stamp {
    /// What a demand is that is granted then.
    pub(super) fn grant(self, demand: Demand) -> Grant {
        demand.granted(self.at)
    }
}

#[derive(Default)]
pub(super) struct Resets {
    /// When the last one was.
    at: Option<Moment>,
    /// How many there were in that instant.
    era: Era,
    /// Whether the state stays behind the lock until that instant is over.
    holds: bool,
}

impl Resets {
    /// Everything starts anew at `now`, which is not before anything that was granted.
    pub(super) fn reset(&mut self, now: Moment) {
        let before = if self.at == Some(now) {
            self.era
        } else {
            Era::default()
        };
        *self = Self {
            at: Some(now),
            era: before.next(),
            holds: true,
        };
    }

    /// What is granted at `now` is granted then.
    pub(super) fn stamp(&self, now: Moment) -> Stamp {
        let era = if self.at == Some(now) {
            self.era
        } else {
            Era::default()
        };
        Stamp { at: now, era }
    }

    /// Whether what was granted then was granted after the last reset.
    pub(super) fn is_before(&self, stamp: Stamp) -> bool {
        let lost = stamp.era == Era::LOST;
        let after = self
            .at
            .is_none_or(|at| stamp.at > at || (stamp.at == at && stamp.era == self.era));
        after && !lost
    }

    /// Whether the state has been kept behind the lock for an instant that is over by now.
    #[inline]
    pub(super) fn are_over(&self, now: Moment) -> bool {
        self.holds && self.at.is_none_or(|at| now > at)
    }

    /// Whether the state has to stay behind the lock.
    pub(super) fn hold(&mut self, now: Moment) -> bool {
        if self.are_over(now) {
            self.holds = false;
        }
        self.holds
    }
}
