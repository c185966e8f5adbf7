use std::time::Duration;

use crate::moment::Moment;
use crate::rule::Rule;

/// The numbers of a limit for its callers: the limit, the remainder, and the time until more is available.
///
/// It holds the values of the `RateLimit` and `RateLimit-Policy` headers. It is a copy: by the time it is read, other
/// callers may have taken permits. [`Snapshot`](crate::Snapshot) is for operators, and also counts waiters and totals.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Standing, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(TokenBucket::per_second(10)).clock(time.clock()).build();
/// gate.try_acquire(4)?;
///
/// let standing = gate.standing();
/// assert_eq!((standing.limit, standing.remaining), (10, Some(6)));
/// assert_eq!(standing.more_after, Some(Duration::from_millis(100)));
/// assert_eq!(standing.reset, Some(Duration::from_millis(400)));
/// assert_eq!(standing.window, Some(Duration::from_secs(1)));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
///
/// A custom limiter builds one from its limit and the remainder:
///
/// ```
/// # use plimsoll::Standing;
/// # use std::time::Duration;
/// let standing = Standing::new(100, 40).window(Duration::from_secs(60));
/// assert_eq!(standing.reset, None); // not known
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Standing {
    /// The most that can be granted at once.
    pub limit: u64,
    /// The amount that could be granted now. `None` if the limiter would have to ask a store.
    pub remaining: Option<u64>,
    /// The time after which more than `remaining` is available if no other demand is granted. `None` if everything is
    /// available, or if the time is not known because other callers have to return permits.
    pub more_after: Option<Duration>,
    /// The time after which the whole limit is available again if no other demand is granted. `None` if it is available
    /// already, or the time is not known.
    pub reset: Option<Duration>,
    /// The time in which the whole limit is refilled. `None` for a limit whose permits are returned.
    pub window: Option<Duration>,
    /// Whether permits are returned when the work is done, as those of [`Concurrency`](crate::Concurrency), instead
    /// of being refilled with time.
    pub returns: bool,
}

impl Standing {
    /// Creates a standing with this limit and this remainder.
    #[must_use]
    pub const fn new(limit: u64, remaining: u64) -> Self {
        let mut standing = Self::of_limit(limit);
        standing.remaining = Some(remaining);
        standing
    }

    /// Creates a standing with this limit and an unknown remainder.
    #[must_use]
    pub const fn of_limit(limit: u64) -> Self {
        Self {
            limit,
            remaining: None,
            more_after: None,
            reset: None,
            window: None,
            returns: false,
        }
    }

    /// Sets [`remaining`](Self#structfield.remaining).
    #[must_use]
    pub fn remaining(mut self, remaining: impl Into<Option<u64>>) -> Self {
        self.remaining = remaining.into();
        self
    }

    /// Sets [`more_after`](Self#structfield.more_after).
    #[must_use]
    pub fn more_after(mut self, more_after: impl Into<Option<Duration>>) -> Self {
        self.more_after = more_after.into();
        self
    }

    /// Sets [`reset`](Self#structfield.reset).
    #[must_use]
    pub fn reset(mut self, reset: impl Into<Option<Duration>>) -> Self {
        self.reset = reset.into();
        self
    }

    /// Sets [`window`](Self#structfield.window).
    #[must_use]
    pub fn window(mut self, window: impl Into<Option<Duration>>) -> Self {
        self.window = window.into();
        self
    }

    /// Sets [`returns`](Self#structfield.returns).
    #[must_use]
    pub const fn returns(mut self, returns: bool) -> Self {
        self.returns = returns;
        self
    }

    /// The standing of a rule with this state.
    pub(crate) fn of<R: Rule>(rule: &R, state: &R::State, now: Moment) -> Self {
        let (limit, remaining) = (rule.limit(), rule.available(state, now));
        let standing = Self {
            remaining: Some(remaining),
            ..Self::of_rule(rule, now)
        };
        if R::RETURNS_PERMITS || remaining >= limit {
            return standing;
        }
        let more_at = match rule.peek(state, now, remaining + 1) {
            Err(refusal) => refusal.ready_at(),
            Ok(()) => None,
        };
        standing
            .more_after(more_at.map(|at| at.since(now)))
            .reset(rule.full_at(state, now).map(|at| at.since(now)))
    }

    /// The standing of a rule, independent of its state.
    pub(crate) fn of_rule<R: Rule>(rule: &R, now: Moment) -> Self {
        Self::of_limit(rule.limit())
            .window(rule.window(now))
            .returns(R::RETURNS_PERMITS)
    }
}
