use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::saturating_nanos;
use crate::{Carry, InvalidLimit, Moment, Quota, Reason, Refusal, Rule, Unpacked};

/// An exact sliding window: stores the moment of every take until it has left the window.
///
/// # What it grants
///
/// Up to the limit in any window, to the nanosecond, and with a [minimum gap](Self::min_gap) no two grants closer than
/// that. It can also [count refusals](Self::counting_refusals), so that a caller that keeps asking is refused until it
/// stops, like the usual log in a sorted set of Redis, which also stores blocked actions. Without this option refusals
/// leave no trace.
///
/// # What it remembers
///
/// 16 bytes for each moment in the window at which anything was taken. Only the newest units, up to the limit, can
/// affect a decision, so there are never more moments than the limit, however many refusals are counted.
///
/// # The formula
///
/// A take at a moment s counts up to, not including, s + period. A cost c is granted at the moment t if the usage at t
/// plus c is at most the limit, and t is at least the gap after the last grant. A refused demand can be retried when
/// enough of the oldest takes have left the window and the gap is over.
///
/// # When to choose it
///
/// For small limits that must be exact: log-ins, password resets, messages to one person.
///
/// ```
/// use plimsoll::{Gate, Quota, SlidingLog};
/// use std::time::Duration;
///
/// // Three login attempts in ten minutes, a second apart. Failed attempts count.
/// let rule = SlidingLog::new(Quota::new(3, Duration::from_secs(600)))
///     .min_gap(Duration::from_secs(1))
///     .counting_refusals();
/// let gate = Gate::new(rule);
/// assert!(gate.try_acquire(1).is_ok());
/// assert!(gate.try_acquire(1).is_err());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SlidingLog {
    limit: u64,
    window: u64,
    min_gap: u64,
    count_refused: bool,
}

/// The state of a [`SlidingLog`]: the time and cost of each take, oldest first.
///
/// Entries store running totals, so that the usage at a moment, and the moment at which it falls below a number, are
/// found by binary search and not by adding up.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Log {
    entries: VecDeque<Entry>,
    /// The running total before the first entry. It wraps around; only differences are used.
    base: u64,
    /// The latest moment at which anything was recorded, whether or not it still counts.
    newest: Option<Moment>,
}

/// Everything that was recorded at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Entry {
    at: Moment,
    /// The running total up to and including this entry.
    total: u64,
}

impl Log {
    /// The sum of all entries, whether or not they still count.
    fn used(&self) -> u64 {
        self.entries.back().map_or(0, |entry| self.up_to(entry))
    }

    /// The sum up to and including `entry`.
    fn up_to(&self, entry: &Entry) -> u64 {
        entry.total.wrapping_sub(self.base)
    }

    /// The sum before the entry at `index`.
    fn before(&self, index: usize) -> u64 {
        let before = index.checked_sub(1).and_then(|last| self.entries.get(last));
        before.map_or(0, |entry| self.up_to(entry))
    }

    /// Drops the oldest `units`.
    fn drop_oldest(&mut self, units: u64) {
        while let Some(oldest) = self.entries.front()
            && self.up_to(oldest) <= units
        {
            self.entries.pop_front();
        }
        self.base = self.base.wrapping_add(units);
    }

    /// Frees `units` of the entry at `index`, which must have as many.
    fn free(&mut self, index: usize, units: u64) {
        for entry in self.entries.range_mut(index..) {
            entry.total = entry.total.wrapping_sub(units);
        }
        if self.up_to(&self.entries[index]) == self.before(index) {
            self.entries.remove(index);
        }
    }
}

impl SlidingLog {
    /// Creates a limit of the quota's units in any window of its period.
    pub const fn new(quota: Quota) -> Self {
        Self {
            limit: quota.units(),
            window: quota.nanos(),
            min_gap: 0,
            count_refused: false,
        }
    }

    /// Sets the minimum time between two grants. Default: zero.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Quota, SlidingLog};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let rule = SlidingLog::new(Quota::per_minute(10)).min_gap(Duration::from_secs(2));
    /// let gate = Gate::builder(rule).clock(time.clock()).build();
    /// gate.try_acquire(1)?;
    /// let denied = gate.try_acquire(1).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(2)));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `min_gap` is longer than the window: it alone would decide.
    #[track_caller]
    pub fn min_gap(self, min_gap: Duration) -> Self {
        match self.try_min_gap(min_gap) {
            Ok(log) => log,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Like [`min_gap`](Self::min_gap), but returns an error instead of panicking. For a duration from outside the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if `min_gap` is longer than the window: it alone would decide.
    pub fn try_min_gap(mut self, min_gap: Duration) -> Result<Self, InvalidLimit> {
        let nanos = saturating_nanos(min_gap);
        if nanos > self.window {
            return Err(InvalidLimit::new(
                "min_gap",
                format!("{min_gap:?}"),
                "at most the window",
            ));
        }
        self.min_gap = nanos;
        Ok(self)
    }

    /// Counts refused demands as if they had been granted, so that a caller that keeps trying is refused until it
    /// pauses.
    ///
    /// The retry time of a refusal includes the refusal itself: after that time without another try there is room.
    pub const fn counting_refusals(mut self) -> Self {
        self.count_refused = true;
        self
    }

    /// Returns the quota of any window.
    pub const fn quota(&self) -> Quota {
        Quota::new(self.limit, Duration::from_nanos(self.window))
    }

    /// Returns the minimum time between two grants.
    #[must_use]
    pub const fn gap(&self) -> Duration {
        Duration::from_nanos(self.min_gap)
    }

    /// Returns whether refused demands count as if they had been granted.
    #[must_use]
    pub const fn counts_refusals(&self) -> bool {
        self.count_refused
    }

    /// The usage at `now`.
    fn counting(&self, log: &Log, now: Moment) -> u64 {
        let gone = log
            .entries
            .partition_point(|entry| now.nanos_since(entry.at) >= self.window);
        log.used() - log.before(gone)
    }

    fn forget_past(&self, log: &mut Log, now: Moment) {
        while let Some(oldest) = log.entries.front()
            && now.nanos_since(oldest.at) >= self.window
        {
            log.base = oldest.total;
            log.entries.pop_front();
        }
    }

    /// The moment under which a take at `now` is recorded: never before the newest one, if the clock steps back.
    fn moment(log: &Log, now: Moment) -> Moment {
        log.newest.map_or(now, |newest| newest.max(now))
    }

    fn record(&self, log: &mut Log, now: Moment, cost: u64) {
        self.forget_past(log, now);
        // Older units than these cannot affect a decision.
        let cost = cost.min(self.limit);
        log.drop_oldest(log.used().saturating_sub(self.limit - cost));
        let at = Self::moment(log, now);
        let last = log.entries.back().map_or(log.base, |entry| entry.total);
        let total = last.wrapping_add(cost);
        log.newest = Some(at);
        match log.entries.back_mut() {
            Some(entry) if entry.at == at => entry.total = total,
            _ => log.entries.push_back(Entry { at, total }),
        }
    }

    /// The moment at which `cost` fits the window in addition to `more`, recorded at the latest moment, and respects
    /// the gap.
    fn ready_at(&self, log: &Log, now: Moment, cost: u64, more: u64) -> Moment {
        if cost > self.limit {
            return Moment::NEVER;
        }
        let latest = Self::moment(log, now);
        let gap_ends = if more > 0 {
            latest.plus_nanos(self.min_gap)
        } else {
            self.gap_ends(log)
        };
        let Some(most) = (self.limit - cost).checked_sub(more) else {
            return latest.plus_nanos(self.window).max(gap_ends).max(now);
        };
        let used = log.used();
        let ready_at = if used <= most {
            now
        } else {
            // The first entry after which there is little enough.
            let last = log
                .entries
                .partition_point(|entry| used - log.up_to(entry) > most);
            let leaves = |entry: &Entry| entry.at.plus_nanos(self.window);
            log.entries.get(last).map_or(now, leaves)
        };
        ready_at.max(gap_ends).max(now)
    }

    fn gap_ends(&self, log: &Log) -> Moment {
        log.newest
            .map_or(Moment::ORIGIN, |newest| newest.plus_nanos(self.min_gap))
    }
}

impl Rule for SlidingLog {
    type State = Log;
    type Fast = Unpacked;

    const REMEMBERS_REFUSALS: bool = true;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn fresh(&self, _now: Moment) -> Log {
        Log::default()
    }

    fn take(&self, log: &mut Log, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.forget_past(log, now);
        self.peek(log, now, cost)?;
        self.record(log, now, cost);
        Ok(())
    }

    fn recorded_at(&self, log: &Log, now: Moment) -> Moment {
        Self::moment(log, now)
    }

    fn refused(&self, log: &mut Log, now: Moment, cost: u64, refusal: Refusal) -> Refusal {
        if !self.count_refused || cost == 0 {
            return refusal;
        }
        // The refusal itself counts, so it is later than it was.
        let ready_at = self.ready_at(log, now, cost, cost);
        self.record(log, now, cost);
        Refusal {
            ready_at: refusal.ready_at.max(ready_at),
            ..refusal
        }
    }

    fn peek(&self, log: &Log, now: Moment, cost: u64) -> Result<(), Refusal> {
        let too_soon = now < self.gap_ends(log);
        if !too_soon && cost <= self.available(log, now) {
            return Ok(());
        }
        let refusal = Refusal::until(self.ready_at(log, now, cost, 0));
        Err(if too_soon {
            refusal.with_reason(Reason::TooSoon)
        } else {
            refusal
        })
    }

    fn available(&self, log: &Log, now: Moment) -> u64 {
        self.limit.saturating_sub(self.counting(log, now))
    }

    fn in_use(&self, log: &Log, now: Moment) -> u64 {
        self.counting(log, now)
    }

    fn refund(&self, log: &mut Log, _now: Moment, taken: Moment, cost: u64) {
        // Only entries of exactly that moment: takes that have left the window cannot be refunded.
        let found = log.entries.binary_search_by_key(&taken, |entry| entry.at);
        let Ok(index) = found else {
            return;
        };
        let held = log.up_to(&log.entries[index]) - log.before(index);
        log.free(index, held.min(cost));
        if log.newest == Some(taken) {
            log.newest = log.entries.back().map(|entry| entry.at);
        }
    }

    fn add(&self, log: &mut Log, now: Moment, amount: u64) {
        self.forget_past(log, now);
        let mut left = amount;
        while left > 0
            && let Some(index) = log.entries.len().checked_sub(1)
        {
            let part = left.min(log.used() - log.before(index));
            log.free(index, part);
            left -= part;
        }
    }

    /// The minimum gap does not apply to charges.
    fn charge(&self, log: &mut Log, now: Moment, cost: u64) {
        let cost = self.available(log, now).min(cost);
        if cost > 0 {
            self.record(log, now, cost);
        }
    }

    fn full_at(&self, log: &Log, now: Moment) -> Option<Moment> {
        let last = log.entries.back();
        let leaves = last.map_or(now, |entry| entry.at.plus_nanos(self.window));
        Some(leaves.max(now))
    }

    /// A gap applies even if the take that began it was refunded.
    fn evictable_from(&self, log: &Log, now: Moment) -> Option<Moment> {
        let full_at = self.full_at(log, now)?;
        Some(full_at.max(self.gap_ends(log)))
    }

    /// The moments are kept. A proportional usage has no such moments: it counts as taken now.
    fn adopt(&self, old: &Self, log: &Log, now: Moment, carry: Carry) -> Log {
        if matches!(carry, Carry::AsIs | Carry::Used) {
            let mut log = log.clone();
            old.forget_past(&mut log, now);
            return log;
        }
        let mut fresh = self.fresh(now);
        let used = carry.used(old.in_use(log, now), old.limit, self.limit);
        if used > 0 {
            self.record(&mut fresh, now, used);
        }
        fresh
    }

    fn keeps_grants(&self, carry: Carry) -> bool {
        matches!(carry, Carry::AsIs | Carry::Used)
    }
}
