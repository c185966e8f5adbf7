use std::time::Duration;

use super::arithmetic::div_ceil;
use super::period::Period;
use crate::{Carry, Moment, Quota, Refusal, Rule, Unpacked};

/// Permits that are renewed at the start of each cycle; a reservation may take from later cycles.
///
/// # What it grants
///
/// Up to the limit in each cycle. A [reservation](crate::Gate::reserve) may take from later cycles, as far ahead as
/// [`max_wait`](Self::max_wait) allows, which leaves less for them. Idle cycles add nothing.
///
/// # What it remembers
///
/// The number of the cycle and its remainder, below zero if later cycles are in debt: 32 bytes, its origin included.
///
/// # When to choose it
///
/// To behave like the rate limiters of other ecosystems that renew permits by cycle and let threads wait for the next
/// cycle. In new code, prefer a [`TokenBucket`](crate::TokenBucket): it supports reservations too, and does not renew
/// everything at once.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Quota, Refresh};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let rule = Refresh::new(Quota::per_second(5)).max_wait(Duration::from_secs(2));
/// let gate = Gate::builder(rule).clock(time.clock()).build();
/// let first = gate.reserve(5)?;
/// assert_eq!(gate.reserve(5)?.wait(), Some(Duration::from_secs(1)));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Refresh {
    limit: u64,
    period: Period,
    max_wait: Duration,
    origin: Moment,
}

/// The state of a [`Refresh`] limit: the remainder of a cycle, below 0 if reserved ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cycle {
    index: u64,
    left: i128,
    origin: Moment,
}

impl Refresh {
    /// Creates a limit of the quota's units in each of its periods; nothing is reserved ahead.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Quota, Refresh};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(Refresh::new(Quota::per_second(5))).clock(time.clock()).build();
    /// gate.try_acquire(3)?;
    /// time.advance(Duration::from_secs(10));
    /// // Ten cycles have passed, and only one of them counts.
    /// assert_eq!(gate.take_up_to(100).cost(), 5);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn new(quota: Quota) -> Self {
        Self {
            limit: quota.units(),
            period: Period::new(quota.nanos()),
            max_wait: Duration::ZERO,
            origin: Moment::ORIGIN,
        }
    }

    /// Sets the longest wait of a reservation. Default: zero. A reservation that would wait longer is refused, and
    /// takes nothing from later cycles.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Quota, Refresh};
    /// use std::time::Duration;
    ///
    /// let rule = Refresh::new(Quota::per_second(5)).max_wait(Duration::from_secs(1));
    /// let gate = Gate::builder(rule).clock(ManualClock::new().clock()).build();
    /// let now = gate.reserve(5)?;
    /// let next = gate.reserve(5)?;
    /// assert_eq!(next.wait(), Some(Duration::from_secs(1)));
    /// assert!(gate.reserve(1).is_err(), "it would have to wait for 2 s");
    /// # drop((now, next));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// The cycle of `now`.
    fn at(&self, cycle: Cycle, now: Moment) -> Cycle {
        let index = self.period.index(now.nanos_since(cycle.origin));
        let Some(passed @ 1..) = index.checked_sub(cycle.index) else {
            return cycle;
        };
        let limit = i128::from(self.limit);
        let added = i128::from(passed).saturating_mul(limit);
        let left = cycle.left.saturating_add(added).min(limit);
        Cycle {
            index,
            left,
            ..cycle
        }
    }

    /// The moment at which `cost` is available, if it is not now.
    fn ready_at(&self, cycle: Cycle, cost: u64) -> Moment {
        let missing = i128::from(cost).saturating_sub(cycle.left).max(0);
        let cycles = div_ceil(missing.cast_unsigned(), self.limit);
        self.period
            .start(cycle.origin, cycle.index.saturating_add(cycles))
    }
}

impl Rule for Refresh {
    type State = Cycle;
    type Fast = Unpacked;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn began(&self) -> Moment {
        self.origin
    }

    fn begin(&mut self, start: Moment) {
        self.origin = start;
    }

    fn fresh(&self, now: Moment) -> Cycle {
        Cycle {
            index: 0,
            left: i128::from(self.limit),
            origin: now,
        }
    }

    fn fresh_key(&self, now: Moment) -> Cycle {
        Cycle {
            index: self.period.index(now.nanos_since(self.origin)),
            origin: self.origin,
            ..self.fresh(now)
        }
    }

    fn take(&self, cycle: &mut Cycle, now: Moment, cost: u64) -> Result<(), Refusal> {
        let at = self.at(*cycle, now);
        if at.left < i128::from(cost) {
            return Err(Refusal::until(self.ready_at(at, cost)));
        }
        *cycle = Cycle {
            left: at.left - i128::from(cost),
            ..at
        };
        Ok(())
    }

    fn recorded_at(&self, cycle: &Cycle, now: Moment) -> Moment {
        now.max(self.period.start(cycle.origin, cycle.index))
    }

    fn available(&self, cycle: &Cycle, now: Moment) -> u64 {
        u64::try_from(self.at(*cycle, now).left.max(0)).unwrap_or(self.limit)
    }

    fn in_use(&self, cycle: &Cycle, now: Moment) -> u64 {
        let left = self.at(*cycle, now).left;
        let used = i128::from(self.limit).saturating_sub(left);
        u64::try_from(used).unwrap_or(u64::MAX)
    }

    fn refund(&self, cycle: &mut Cycle, now: Moment, taken: Moment, cost: u64) {
        *cycle = self.at(*cycle, now);
        // Usage of an earlier cycle has been renewed already.
        if self.period.index(taken.nanos_since(cycle.origin)) >= cycle.index {
            cycle.left = cycle
                .left
                .saturating_add(i128::from(cost))
                .min(i128::from(self.limit));
        }
    }

    fn full_at(&self, cycle: &Cycle, now: Moment) -> Option<Moment> {
        let at = self.at(*cycle, now);
        Some(self.ready_at(at, self.limit).max(now))
    }

    fn book(&self, cycle: &Cycle, now: Moment, cost: u64) -> Option<(Cycle, Moment)> {
        let at = self.at(*cycle, now);
        let ready_at = self.ready_at(at, cost).max(now);
        let left = at.left.saturating_sub(i128::from(cost));
        Some((Cycle { left, ..at }, ready_at))
    }

    fn evictable_from(&self, cycle: &Cycle, now: Moment) -> Option<Moment> {
        // The cycles of a new key are counted from the start of the limiter.
        if cycle.origin == self.origin {
            self.full_at(cycle, now)
        } else {
            Some(Moment::NEVER)
        }
    }

    /// Reservations ahead still reduce later cycles. Usage of this cycle does not: at most it uses up a smaller limit.
    fn adopt(&self, old: &Self, cycle: &Cycle, now: Moment, carry: Carry) -> Cycle {
        let used = old.in_use(cycle, now);
        let of_this_cycle = used.min(old.limit);
        let carried = |used| carry.used(used, old.limit, self.limit);
        let left = self.limit.saturating_sub(carried(of_this_cycle));
        Cycle {
            left: i128::from(left) - i128::from(carried(used - of_this_cycle)),
            ..self.fresh(now)
        }
    }

    fn longest_wait(&self) -> Option<Duration> {
        Some(self.max_wait)
    }
}
