use std::time::Duration;

use super::period::Period;
use crate::{Carry, Moment, Quota, Refusal, Rule, Unpacked};

/// A sliding window estimated from two counts: those of the current and the previous window.
///
/// # What it grants
///
/// About the limit in any window. The usage of the previous window is assumed to be spread evenly over it, and counts
/// for less as the current window passes: 15 seconds into a minute, three quarters of it. The more uneven the traffic,
/// the larger the error of the estimate.
///
/// # What it remembers
///
/// Two counts and the number of the window, whatever the limit: 32 bytes, its origin included.
///
/// # The formula
///
/// With the usage `before` of the previous window, `current` of this one, and the part p of this window that has
/// passed, a cost c is granted if current + before · (1 − p) + c ≤ limit. The product is computed in whole numbers of
/// units times nanoseconds: nothing is rounded before the comparison.
///
/// # When to choose it
///
/// For a sliding window with very many keys, if an estimate is good enough. [`SlidingWindow`](crate::SlidingWindow)
/// counts by segment instead of estimating, at eight bytes per segment.
///
/// # At the edges
///
/// - Usage of a whole limit in the last instant of a window counts for less from the next instant on: up to nearly
///   twice the limit can pass within a window's length around a boundary, half of it in the window after the boundary.
/// - Usage of a whole limit in the first instant of a window counts for longer than a true sliding window would count
///   it.
/// - After two idle windows nothing of the usage is left.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Quota, SlidingCounter};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(SlidingCounter::new(Quota::per_minute(100))).clock(time.clock()).build();
/// gate.try_acquire(100)?;
/// time.advance(Duration::from_secs(75));
/// assert_eq!(gate.snapshot().available(), 25, "three quarters still count");
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SlidingCounter {
    limit: u64,
    window: Period,
    origin: Moment,
}

/// The state of a [`SlidingCounter`]: the usage of the current and of the previous window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlidingCounts {
    index: u64,
    current: u64,
    previous: u64,
    origin: Moment,
}

impl SlidingCounter {
    /// Creates a limit of the quota's units in a window of its period.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Quota, SlidingCounter};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(SlidingCounter::new(Quota::per_minute(60))).clock(time.clock()).build();
    /// gate.try_acquire(60)?;
    /// time.advance(Duration::from_secs(90));
    /// // Half of the minute before has left the window.
    /// assert!(gate.try_acquire(30).is_ok());
    /// assert!(gate.try_acquire(1).is_err());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn new(quota: Quota) -> Self {
        Self {
            limit: quota.units(),
            window: Period::new(quota.nanos()),
            origin: Moment::ORIGIN,
        }
    }

    /// Returns the quota of each window.
    pub const fn quota(&self) -> Quota {
        Quota::new(self.limit, Duration::from_nanos(self.window.nanos()))
    }

    /// The counts as they are at `now`, and the time that has passed of the current window.
    fn at(&self, counts: SlidingCounts, now: Moment) -> (SlidingCounts, u64) {
        let elapsed = now.nanos_since(counts.origin);
        let index = self.window.index(elapsed);
        let counts = match index.checked_sub(counts.index) {
            // A step back of the clock counts as the beginning of the current window.
            None => return (counts, 0),
            Some(0) => counts,
            Some(1) => SlidingCounts {
                index,
                current: 0,
                previous: counts.current,
                ..counts
            },
            Some(_) => SlidingCounts {
                index,
                current: 0,
                previous: 0,
                ..counts
            },
        };
        (counts, elapsed - index * self.window.nanos())
    }

    /// The weighted usage of the previous window after `passed`, times the length of a window.
    fn faded(&self, previous: u64, passed: u64) -> u128 {
        u128::from(previous) * u128::from(self.window.nanos() - passed)
    }

    /// The same in whole units.
    fn still_counts(&self, previous: u64, passed: u64) -> u64 {
        let faded = self.faded(previous, passed);
        u64::try_from(faded.div_ceil(u128::from(self.window.nanos()))).unwrap_or(u64::MAX)
    }

    /// The remainder, rounded down.
    fn room(&self, counts: SlidingCounts, passed: u64) -> u64 {
        let window = u128::from(self.window.nanos());
        let free = u128::from(self.limit.saturating_sub(counts.current)) * window;
        let room = free.saturating_sub(self.faded(counts.previous, passed)) / window;
        u64::try_from(room).unwrap_or(self.limit)
    }

    /// The shortest time into a window after which `cost` fits in addition to `current`, or the whole window.
    fn passed_when_fits(&self, current: u64, previous: u64, cost: u64) -> Option<u64> {
        let room = self.limit.checked_sub(current)?.checked_sub(cost)?;
        if previous <= room {
            return Some(0);
        }
        // previous · (w − e) ≤ room · w, so e ≥ w · (previous − room) / previous
        let window = u128::from(self.window.nanos());
        let passed = (window * u128::from(previous - room)).div_ceil(u128::from(previous));
        u64::try_from(passed)
            .ok()
            .filter(|&passed| passed < self.window.nanos())
    }

    fn ready_at(&self, counts: SlidingCounts, now: Moment, passed: u64, cost: u64) -> Moment {
        let start = |index| self.window.start(counts.origin, index);
        if let Some(then) = self.passed_when_fits(counts.current, counts.previous, cost) {
            return start(counts.index).plus_nanos(then.max(passed)).max(now);
        }
        // In the next window the current usage fades; after that it has expired.
        match self.passed_when_fits(0, counts.current, cost) {
            Some(then) => start(counts.index.saturating_add(1)).plus_nanos(then),
            None => start(counts.index.saturating_add(2)),
        }
    }
}

impl Rule for SlidingCounter {
    type State = SlidingCounts;
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

    fn fresh(&self, now: Moment) -> SlidingCounts {
        SlidingCounts {
            index: 0,
            current: 0,
            previous: 0,
            origin: now,
        }
    }

    fn fresh_key(&self, now: Moment) -> SlidingCounts {
        SlidingCounts {
            index: self.window.index(now.nanos_since(self.origin)),
            origin: self.origin,
            ..self.fresh(now)
        }
    }

    fn take(&self, counts: &mut SlidingCounts, now: Moment, cost: u64) -> Result<(), Refusal> {
        let (at, passed) = self.at(*counts, now);
        if cost > self.room(at, passed) {
            return Err(Refusal::until(self.ready_at(at, now, passed, cost)));
        }
        *counts = SlidingCounts {
            current: at.current + cost,
            ..at
        };
        Ok(())
    }

    fn available(&self, counts: &SlidingCounts, now: Moment) -> u64 {
        let (at, passed) = self.at(*counts, now);
        self.room(at, passed)
    }

    fn recorded_at(&self, counts: &SlidingCounts, now: Moment) -> Moment {
        now.max(self.window.start(counts.origin, counts.index))
    }

    fn in_use(&self, counts: &SlidingCounts, now: Moment) -> u64 {
        let (at, passed) = self.at(*counts, now);
        at.current
            .saturating_add(self.still_counts(at.previous, passed))
    }

    fn refund(&self, counts: &mut SlidingCounts, now: Moment, taken: Moment, cost: u64) {
        let (mut at, _) = self.at(*counts, now);
        let taken = self.window.index(taken.nanos_since(counts.origin));
        if taken >= at.index {
            at.current = at.current.saturating_sub(cost);
        } else if at.index - taken == 1 {
            at.previous = at.previous.saturating_sub(cost);
        }
        *counts = at;
    }

    /// First the usage of this window; then as much of the previous window as still counts.
    fn add(&self, counts: &mut SlidingCounts, now: Moment, amount: u64) {
        let (mut at, passed) = self.at(*counts, now);
        let part = amount.min(at.current);
        at.current -= part;
        let rest = amount - part;
        if rest > 0 {
            let left = self.still_counts(at.previous, passed).saturating_sub(rest);
            let window = u128::from(self.window.nanos());
            let scaled = u128::from(left) * window / (window - u128::from(passed));
            at.previous = u64::try_from(scaled).unwrap_or(u64::MAX).min(at.previous);
        }
        *counts = at;
    }

    fn evictable_from(&self, counts: &SlidingCounts, now: Moment) -> Option<Moment> {
        // The windows of a new key are counted from the start of the limiter.
        if counts.origin == self.origin {
            self.full_at(counts, now)
        } else {
            Some(Moment::NEVER)
        }
    }

    fn adopt(
        &self,
        old: &Self,
        counts: &SlidingCounts,
        now: Moment,
        carry: Carry,
    ) -> SlidingCounts {
        SlidingCounts {
            current: carry.used(old.in_use(counts, now), old.limit, self.limit),
            ..self.fresh(now)
        }
    }

    /// Usage fades for another window; the limit is still that of one.
    fn window(&self, _now: Moment) -> Option<Duration> {
        Some(Duration::from_nanos(self.window.nanos()))
    }

    fn full_at(&self, counts: &SlidingCounts, now: Moment) -> Option<Moment> {
        let (at, _) = self.at(*counts, now);
        let windows = match (at.current, at.previous) {
            (0, 0) => return Some(now),
            (0, _) => 1,
            _ => 2,
        };
        Some(
            self.window
                .start(at.origin, at.index.saturating_add(windows)),
        )
    }
}
