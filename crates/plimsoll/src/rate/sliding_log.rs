use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::saturating_nanos;
use crate::{InvalidLimit, Moment, Quota, Reason, Refusal, Rule};

/// So many in any window, counted exactly: every single time is remembered.
///
/// The most precise window and the most expensive: 16 bytes for each time at which anything was taken
/// and that is still in the window.
///
/// ```
/// use plimsoll::{Gate, Quota, SlidingLog};
/// use std::time::Duration;
///
/// // Three login attempts in ten minutes, a second apart. Failed attempts count.
/// let rule = SlidingLog::new(Quota::new(3, Duration::from_secs(600)))
///     .with_min_gap(Duration::from_secs(1))
///     .counting_refusals();
/// let gate = Gate::new(rule);
/// assert!(gate.try_acquire(1).is_ok());
/// assert!(gate.try_acquire(1).is_err());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SlidingLog {
    limit: u32,
    window: u64,
    min_gap: u64,
    count_refused: bool,
}

/// What a [`SlidingLog`] remembers: when how much was taken, from the oldest to the newest.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Log {
    entries: VecDeque<Entry>,
    used: u64,
    newest: Option<Moment>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    at: Moment,
    cost: u32,
}

impl SlidingLog {
    /// As many as the quota's units in any window of its period.
    pub const fn new(quota: Quota) -> Self {
        Self {
            limit: quota.units(),
            window: quota.nanos(),
            min_gap: 0,
            count_refused: false,
        }
    }

    /// Nothing sooner than `min_gap` after the one before.
    pub fn with_min_gap(mut self, min_gap: Duration) -> Self {
        self.min_gap = saturating_nanos(min_gap);
        self
    }

    /// Nothing sooner than `min_gap` after the one before.
    ///
    /// # Errors
    ///
    /// If `min_gap` is longer than the window: it alone would decide.
    pub fn try_with_min_gap(self, min_gap: Duration) -> Result<Self, InvalidLimit> {
        if saturating_nanos(min_gap) > self.window {
            return Err(InvalidLimit::new(
                "min_gap",
                format!("{min_gap:?}"),
                "at most the window",
            ));
        }
        Ok(self.with_min_gap(min_gap))
    }

    /// Counts what is refused as if it had been granted: one who keeps trying keeps being refused.
    pub const fn counting_refusals(mut self) -> Self {
        self.count_refused = true;
        self
    }

    /// So many in any window.
    pub const fn quota(&self) -> Quota {
        Quota::new(self.limit, Duration::from_nanos(self.window))
    }

    /// The least time between two grants.
    #[must_use]
    pub const fn min_gap(&self) -> Duration {
        Duration::from_nanos(self.min_gap)
    }

    /// Whether what is refused counts as if it had been granted.
    #[must_use]
    pub const fn counts_refusals(&self) -> bool {
        self.count_refused
    }

    /// The entries that still count, and how much they sum up to.
    fn counting<'a>(&self, log: &'a Log, now: Moment) -> (impl Iterator<Item = &'a Entry>, u64) {
        let window = self.window;
        let gone = log
            .entries
            .iter()
            .take_while(move |entry| now.nanos_since(entry.at) >= window);
        let (count, cost) = gone.fold((0, 0), |(count, cost), entry| {
            (count + 1, cost + u64::from(entry.cost))
        });
        (log.entries.iter().skip(count), log.used - cost)
    }

    fn forget_past(&self, log: &mut Log, now: Moment) {
        while let Some(oldest) = log.entries.front() {
            if now.nanos_since(oldest.at) < self.window {
                break;
            }
            log.used -= u64::from(oldest.cost);
            log.entries.pop_front();
        }
    }

    fn record(&self, log: &mut Log, now: Moment, cost: u32) {
        self.forget_past(log, now);
        // Time that steps back stands still.
        let at = log.newest.map_or(now, |newest| newest.max(now));
        log.used += u64::from(cost);
        log.newest = Some(at);
        match log.entries.back_mut() {
            Some(entry) if entry.at == at && entry.cost.checked_add(cost).is_some() => {
                entry.cost += cost;
            }
            _ => log.entries.push_back(Entry { at, cost }),
        }
    }

    /// When `cost` fits the window and keeps the gap.
    fn ready_at(&self, log: &Log, now: Moment, cost: u32) -> Moment {
        let most = u64::from(self.limit.saturating_sub(cost));
        let (entries, mut used) = self.counting(log, now);
        let mut ready_at = now;
        for entry in entries {
            if used <= most {
                break;
            }
            used -= u64::from(entry.cost);
            ready_at = entry.at.plus_nanos(self.window);
        }
        ready_at.max(self.gap_ends(log))
    }

    fn gap_ends(&self, log: &Log) -> Moment {
        log.newest
            .map_or(Moment::ORIGIN, |newest| newest.plus_nanos(self.min_gap))
    }

    fn refusal(&self, log: &Log, now: Moment, cost: u32) -> Refusal {
        let refusal = Refusal::until(self.ready_at(log, now, cost));
        if now < self.gap_ends(log) {
            refusal.because(Reason::TooSoon)
        } else {
            refusal
        }
    }
}

impl Rule for SlidingLog {
    type State = Log;

    const REMEMBERS_REFUSALS: bool = true;

    fn limit(&self) -> u32 {
        self.limit
    }

    fn fresh(&self, _now: Moment) -> Log {
        Log::default()
    }

    fn take(&self, log: &mut Log, now: Moment, cost: u32) -> Result<(), Refusal> {
        if now < self.gap_ends(log) || u64::from(cost) > u64::from(self.available(log, now)) {
            return Err(self.refusal(log, now, cost));
        }
        self.record(log, now, cost);
        Ok(())
    }

    fn refused(&self, log: &mut Log, now: Moment, cost: u32, refusal: Refusal) -> Refusal {
        if !self.count_refused {
            return refusal;
        }
        self.record(log, now, cost);
        // The refusal itself counts by now, so it is later than it was.
        Refusal {
            ready_at: refusal.ready_at.max(self.ready_at(log, now, cost)),
            ..refusal
        }
    }

    fn available(&self, log: &Log, now: Moment) -> u32 {
        let (_, used) = self.counting(log, now);
        self.limit
            .saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    fn in_use(&self, log: &Log, now: Moment) -> u64 {
        self.counting(log, now).1
    }

    fn put_back(&self, log: &mut Log, _now: Moment, taken: Moment, cost: u32) {
        let mut left = cost;
        // Only what was recorded at that very moment: what has left the window is nobody's any more.
        for entry in log.entries.iter_mut().filter(|entry| entry.at == taken) {
            let part = left.min(entry.cost);
            entry.cost -= part;
            left -= part;
            if left == 0 {
                break;
            }
        }
        log.used -= u64::from(cost - left);
        log.entries.retain(|entry| entry.cost > 0);
        log.newest = log
            .entries
            .back()
            .map(|entry| entry.at)
            .or(log.newest.filter(|_| left > 0));
    }

    fn add(&self, log: &mut Log, now: Moment, amount: u32) {
        self.forget_past(log, now);
        let mut left = u64::from(amount);
        while let (true, Some(newest)) = (left > 0, log.entries.back_mut()) {
            let part = u64::from(newest.cost).min(left);
            newest.cost -= u32::try_from(part).unwrap_or(u32::MAX);
            left -= part;
            log.used -= part;
            if newest.cost == 0 {
                log.entries.pop_back();
            }
        }
    }

    fn full_at(&self, log: &Log, now: Moment) -> Option<Moment> {
        let newest = log
            .newest
            .map_or(now, |newest| newest.plus_nanos(self.window));
        Some(newest.max(now))
    }
}
