//! The samples between two decisions.

use crate::Moment;
use crate::adaptive::Sample;
use crate::adaptive::histogram::Histogram;

/// A window is at least this long, in nanoseconds: shorter ones measure the scheduler.
const MIN_SPAN: f64 = 100e6;
/// But not longer than this, so that outdated knowledge can be replaced.
const MAX_SPAN: f64 = 10e9;
/// The quantile that is the signal. See [`Verdict`](super::Verdict).
const QUANTILE: f64 = 0.25;
/// The first window lasts until this many times the work in flight has ended.
const FIRST_SPANS: f64 = 2.0;
/// So many overloads must be the longest of all to be late: fewer may be by chance.
const LATE: u32 = 3;
/// Work that begins this long after the last sample follows a rest. The rest is not part of a latency.
const REST: u64 = 1_000_000_000;

/// Collects samples.
#[derive(Clone)]
pub(super) struct Window {
    latencies: Histogram,
    /// The sum of all latencies, in nanoseconds.
    total: f64,
    /// And of their squares.
    squares: f64,
    opened: Moment,
    last: Moment,
    ended: u32,
    /// The number of pieces of work for which the samples stand.
    weight: u64,
    refusals: u32,
    /// The number of samples that ended while the limit was reached.
    full: u32,
    overloads: u32,
    /// How long they took, in nanoseconds, and the first of them.
    overload_time: f64,
    soonest: u64,
    /// The longest that something took that was no overload.
    longest: u64,
    peak: u64,
    /// The sum of the work in flight at the ends of the samples.
    in_flight: u64,
    /// The number of samples still to skip: that work was admitted under a larger limit.
    passing: u64,
}

/// When a window may close: after so many samples, and so many latencies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    pub(super) samples: f64,
    pub(super) spans: f64,
}

/// The result of a window. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When the window was opened and closed.
    pub(super) opened: f64,
    pub(super) closed: f64,
    /// The number of samples.
    pub(super) count: f64,
    /// The throughput per nanosecond.
    pub(super) throughput: f64,
    /// The quantile of the latencies, if any were reliable.
    pub(super) latency: Option<Latency>,
    /// The maximum and the mean of the work in flight.
    pub(super) peak: f64,
    pub(super) mean: f64,
    /// The mean of the work in flight at the ends of samples, and the mean latency.
    pub(super) held: f64,
    pub(super) time: f64,
    /// The standard error of the mean latency.
    pub(super) time_error: f64,
    /// Whether the limit was binding: a demand was refused, or the limit was reached most of the time, as it is while work waits
    /// for it.
    pub(super) saturated: bool,
    /// The number of samples that failed for overload.
    pub(super) overloads: f64,
    /// The mean of their durations.
    pub(super) overload_latency: f64,
    /// After what time work was late, if what failed took longer than all that did not.
    pub(super) late: Option<f64>,
}

/// A quantile of a sample, and its standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Seen {
    /// Returns the throughput per nanosecond by Little's law: the work in flight divided by its latency. Unlike a count it does not
    /// depend on the position of the window between two batches, but the work in flight must have been constant for a while.
    pub(super) fn flow(&self) -> f64 {
        self.held / self.time
    }

    /// Returns the work in flight as a multiple of the work that the samples account for: more than 1 if work ends unheard, because
    /// its client has disconnected.
    pub(super) fn unheard(&self) -> f64 {
        self.held / self.mean.max(1.0)
    }
}

impl Window {
    pub(super) const fn new() -> Self {
        Self {
            latencies: Histogram::new(),
            total: 0.0,
            squares: 0.0,
            opened: Moment::ORIGIN,
            last: Moment::ORIGIN,
            ended: 0,
            weight: 0,
            refusals: 0,
            full: 0,
            overloads: 0,
            overload_time: 0.0,
            soonest: u64::MAX,
            longest: 0,
            peak: 0,
            in_flight: 0,
            passing: 0,
        }
    }

    /// Skips the next `ends` samples: they were admitted under a larger limit, and waited for each other.
    pub(super) const fn pass_over(&mut self, ends: u64) {
        self.passing = ends;
    }

    /// Adds a sample, and closes the window if it is the last one. `base` is the latency of a server without
    /// a queue, as far as known.
    #[inline]
    pub(super) fn add(
        &mut self,
        sample: &Sample,
        limit: f64,
        base: Option<f64>,
        asks: &Asks,
    ) -> Option<Seen> {
        let now = sample.end;
        let rest = sample.start.nanos_since(self.last);
        self.last = now;
        if self.passing > 0 {
            self.passing = self.passing.saturating_sub(sample.weight.into());
            self.opened = now;
            return None;
        }
        if rest > REST {
            self.opened = self.opened.plus_nanos(rest);
        }
        // The clock stepped back, or the rest was longer than the window.
        self.opened = self.opened.min(now);
        let nanos = now.nanos_since(sample.start);
        self.ended = self.ended.saturating_add(1);
        self.weight = self.weight.saturating_add(u64::from(sample.weight));
        self.refusals = self.refusals.saturating_add(u32::from(sample.refused));
        self.peak = self.peak.max(sample.in_flight);
        self.in_flight = self.in_flight.saturating_add(sample.in_flight);
        if sample.in_flight as f64 >= limit.floor() {
            self.full = self.full.saturating_add(1);
        }
        if sample.overload {
            self.overloads = self.overloads.saturating_add(1);
            self.overload_time += nanos as f64;
            self.soonest = self.soonest.min(nanos);
        } else {
            self.longest = self.longest.max(nanos);
        }
        // A server refuses work quickly; that is not the latency of work.
        if !sample.overload || base.is_some_and(|base| nanos as f64 >= base) {
            self.latencies.record(nanos);
            self.total += nanos as f64;
            self.squares += nanos as f64 * nanos as f64;
        }
        let count = f64::from(self.ended);
        if count < asks.samples {
            return None;
        }
        let age = now.nanos_since(self.opened) as f64;
        if age < MIN_SPAN {
            return None;
        }
        let mean = self.total / f64::from(self.latencies.len().max(1));
        if asks.spans > 0.0 && age < (asks.spans * base.unwrap_or(mean)).max(mean).min(MAX_SPAN) {
            return None;
        }
        // Of work that began together the short pieces end first, so latencies would be too low: in the first window all of it must
        // have ended, and as much again (the class `many_workers` of the simulator's example `law`).
        let held = self.in_flight as f64 / count;
        if base.is_none() && count < FIRST_SPANS * held && age < MAX_SPAN {
            return None;
        }
        let seen = self.seen(count, age, now);
        self.reopen(now);
        Some(seen)
    }

    fn seen(&self, count: f64, age: f64, now: Moment) -> Seen {
        let timed = f64::from(self.latencies.len().max(1));
        let time = (self.total / timed).max(1.0);
        Seen {
            opened: self.opened.as_nanos() as f64,
            closed: now.as_nanos() as f64,
            count,
            throughput: self.weight as f64 / age,
            latency: self.latency(),
            peak: self.peak as f64,
            mean: self.weight as f64 / age * time,
            held: self.in_flight as f64 / count,
            time,
            time_error: ((self.squares / timed - time * time).max(0.0) / timed).sqrt(),
            saturated: self.refusals > 0 || f64::from(self.full) > 0.5 * count,
            overloads: f64::from(self.overloads),
            overload_latency: self.overload_time / f64::from(self.overloads.max(1)),
            late: (self.overloads >= LATE && self.soonest > self.longest)
                .then_some(self.soonest as f64),
        }
    }

    /// Returns the quantile and its error: the rank of a quantile among `n` samples has a standard deviation of √(p(1−p)/n) for
    /// every distribution, so its neighbours at that distance give the error.
    fn latency(&self) -> Option<Latency> {
        if self.latencies.len() == 0 {
            return None;
        }
        let spread = (QUANTILE * (1.0 - QUANTILE) / f64::from(self.latencies.len())).sqrt();
        let below = self.latencies.quantile((QUANTILE - spread).max(0.0));
        let above = self.latencies.quantile((QUANTILE + spread).min(1.0));
        Some(Latency {
            value: self.latencies.quantile(QUANTILE).max(1.0),
            error: (above - below) / 2.0,
        })
    }

    fn reopen(&mut self, now: Moment) {
        self.latencies.clear();
        self.total = 0.0;
        self.squares = 0.0;
        self.opened = now;
        self.ended = 0;
        self.weight = 0;
        self.refusals = 0;
        self.full = 0;
        self.overloads = 0;
        self.overload_time = 0.0;
        self.soonest = u64::MAX;
        self.longest = 0;
        self.peak = 0;
        self.in_flight = 0;
    }
}
