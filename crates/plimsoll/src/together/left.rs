//! The elapsed and the remaining time of a waiting request, without reference to a clock.

use std::time::Duration;

use crate::demand::Patience;
use crate::moment::saturating_nanos;
use crate::{Demand, Moment};

/// The progress of a wait: the same on every clock.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    pub(super) waited: Duration,
    pub(super) left: Left,
}

impl Progress {
    /// The progress of two waits that end together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            waited: self.waited.max(other.waited),
            left: self.left.min(other.left),
        }
    }

    /// The start of the wait, on a clock that shows `now`.
    pub(super) fn began(self, now: Moment) -> Moment {
        let waited = saturating_nanos(self.waited);
        Moment::from_nanos(now.as_nanos().saturating_sub(waited))
    }
}

/// The remaining time of a demand when its wait begins: the same on every clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    /// The time is over.
    Nothing,
    Span(Duration),
    Unlimited,
}

impl Left {
    /// The remaining time at a moment of the demand's clock.
    pub(crate) fn at(demand: Demand, now: Moment) -> Self {
        match demand.patience {
            Patience::Unlimited => Self::Unlimited,
            Patience::AtOnce => Self::Span(Duration::ZERO),
            Patience::Within(span) => Self::Span(span),
            Patience::Until(deadline) | Patience::Kept(deadline) => Self::until(deadline, now),
        }
    }

    pub(super) fn until(deadline: Moment, now: Moment) -> Self {
        if deadline < now {
            Self::Nothing
        } else if deadline.is_known() {
            Self::Span(deadline.since(now))
        } else {
            Self::Unlimited
        }
    }

    /// The deadline, on a clock that shows `now`.
    pub(crate) fn deadline(self, now: Moment) -> Moment {
        match self {
            Self::Unlimited => Moment::NEVER,
            Self::Span(span) => now.plus(span),
            Self::Nothing => now,
        }
    }

    /// The same demand, with the deadline as a moment of a clock that shows `now`.
    pub(crate) fn of(self, demand: Demand, now: Moment) -> Demand {
        match self {
            _ if demand.is_kept() => demand.kept_until(Some(self.deadline(now))),
            Self::Unlimited => Demand {
                patience: Patience::Unlimited,
                ..demand
            },
            _ => demand.until(self.deadline(now)),
        }
    }

    pub(super) fn is_less_than(self, wait: Option<Duration>) -> bool {
        match self {
            Self::Unlimited => false,
            Self::Span(span) => wait.is_some_and(|wait| wait > span),
            Self::Nothing => true,
        }
    }
}
