use std::time::Duration;

use crate::{Moment, Rule};

/// How much of a limit is left, for those who are told of it: in a header, on a page.
///
/// A copy, and already old when it is read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Standing {
    limit: u64,
    remaining: u64,
    more_after: Option<Duration>,
    reset: Option<Duration>,
}

impl Standing {
    /// So much of the limit is left.
    #[must_use]
    pub const fn new(limit: u64, remaining: u64) -> Self {
        Self {
            limit,
            remaining,
            more_after: None,
            reset: None,
        }
    }

    /// Says after which time there is more, if nobody else comes.
    #[must_use]
    pub const fn with_more_after(mut self, more_after: Option<Duration>) -> Self {
        self.more_after = more_after;
        self
    }

    /// Says after which time everything is available again, if nobody else comes.
    #[must_use]
    pub const fn with_reset(mut self, reset: Option<Duration>) -> Self {
        self.reset = reset;
        self
    }

    pub(crate) fn of<R: Rule>(rule: &R, state: &R::State, now: Moment) -> Self {
        let (limit, remaining) = (rule.limit(), rule.available(state, now));
        let standing = Self::new(u64::from(limit), u64::from(remaining));
        if R::RETURNS_PERMITS || remaining >= limit {
            return standing;
        }
        let more_at = match rule.peek(state, now, remaining + 1) {
            Err(refusal) => refusal.ready_at(),
            Ok(()) => None,
        };
        standing
            .with_more_after(more_at.map(|at| at.since(now)))
            .with_reset(rule.full_at(state, now).map(|at| at.since(now)))
    }

    /// The most that can be granted at once.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// What could be granted now.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The time after which there is more than now if nobody else comes; `None` if there cannot be more, or
    /// nobody knows.
    #[must_use]
    pub const fn more_after(&self) -> Option<Duration> {
        self.more_after
    }

    /// The time after which the whole limit is available again if nobody else comes; `None` if it is, or nobody
    /// knows.
    #[must_use]
    pub const fn reset(&self) -> Option<Duration> {
        self.reset
    }
}

/// What a limiter promises, whoever asks: so much, in so much time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Terms {
    /// The most that can be granted at once.
    pub limit: u64,
    /// The time in which all of it comes back, for limits that replenish themselves.
    pub window: Option<Duration>,
    /// Whether it is given back instead.
    pub gives_back: bool,
}

impl Terms {
    pub(crate) fn of<R: Rule>(rule: &R, now: Moment) -> Self {
        Self {
            limit: u64::from(rule.limit()),
            window: rule.window(now),
            gives_back: R::RETURNS_PERMITS,
        }
    }
}
