//! The algorithm of our own.

mod builder;

pub use builder::VerdictBuilder;

use std::fmt;
use std::time::Duration;

use super::histogram::Histogram;
use super::{Insight, Limit, Sample};

const MIN_WINDOW: f64 = 100e6;
const MAX_WINDOW: f64 = 10e9;
const MIN_SAMPLES: u32 = 50;

/// Finds the limit by queueing delay, and verifies that the delay is its own doing.
pub struct Verdict {
    limit: f64,
    min: f64,
    max: f64,
    latencies: Histogram,
    opened: f64,
    peak: u32,
    refused: bool,
    overloads: u32,
    /// Nothing counts before this moment: what was admitted before the last cut drains.
    settled: f64,
    base: Option<f64>,
    signals: [f64; 3],
    known: usize,
    previous: Option<f64>,
    noise: f64,
    slow: f64,
    growing: bool,
    squeeze: Option<f64>,
    reference: Option<Reference>,
    signal: f64,
    decision: &'static str,
}

/// A settled window of a squeeze.
#[derive(Clone, Copy, Debug)]
struct Reference {
    limit: f64,
    throughput: f64,
    latency: f64,
}

impl Verdict {
    /// From 20, within 1 and 1000.
    #[must_use]
    pub fn new() -> Self {
        Self::within(20, 1, 1_000)
    }

    /// With other bounds.
    pub const fn builder() -> VerdictBuilder {
        VerdictBuilder::new()
    }

    fn within(initial: u32, min: u32, max: u32) -> Self {
        Self {
            limit: f64::from(initial),
            min: f64::from(min),
            max: f64::from(max),
            latencies: Histogram::new(),
            opened: 0.0,
            peak: 0,
            refused: false,
            overloads: 0,
            settled: -1.0,
            base: None,
            signals: [0.0; 3],
            known: 0,
            previous: None,
            noise: 0.1,
            slow: 0.0,
            growing: true,
            squeeze: None,
            reference: None,
            signal: 0.0,
            decision: "start",
        }
    }

    fn open(&mut self, now: f64) {
        self.latencies.clear();
        self.peak = 0;
        self.refused = false;
        self.overloads = 0;
        self.opened = now;
    }

    fn set(&mut self, limit: f64, now: f64) {
        let limit = limit.clamp(self.min, self.max);
        if limit < self.limit {
            self.settled = now + 1.5 * self.slow;
            self.known = 0;
        }
        self.limit = limit;
    }

    /// The median of the last three windows.
    fn filtered(&mut self, raw: f64) -> f64 {
        if self.known == 3 {
            self.signals.rotate_left(1);
            self.known = 2;
        }
        self.signals[self.known] = raw;
        self.known += 1;
        let mut sorted = self.signals;
        sorted[..self.known].sort_by(f64::total_cmp);
        sorted[self.known / 2]
    }

    fn close(&mut self, now: f64, age: f64) {
        let count = f64::from(self.latencies.len());
        let raw = self.latencies.quantile(0.5).max(1.0);
        self.slow = self.latencies.quantile(0.9);
        let throughput = count / age;
        let used = self.refused || f64::from(self.peak) >= 0.5 * self.limit;
        let overloaded = f64::from(self.overloads) > 0.1 * count;
        self.open(now);
        if let (Some(previous), None) = (self.previous, self.squeeze) {
            let change = ((raw - previous).abs() / raw.min(previous)).min(1.0);
            self.noise += 0.05 * (change - self.noise);
        }
        self.previous = Some(raw);
        let signal = self.filtered(raw);
        let base = match self.base {
            None => signal,
            Some(base) if signal < base => base + (signal - base) * 0.5,
            Some(base) if !used => base + (signal - base) * 0.1,
            Some(base) => base,
        };
        self.base = Some(base);
        self.signal = signal;
        if !used {
            self.squeeze = None;
            self.reference = None;
            self.decision = "unused";
            return;
        }
        let limit = self.limit;
        let allowance = (limit.sqrt() / 2.0).max(1.0);
        let tolerance = 1.15 + 2.0 * self.noise;
        let congested = signal > base * tolerance && limit * (1.0 - base / signal) > allowance;
        if !congested && !overloaded {
            self.squeeze = None;
            self.reference = None;
            let step = (limit.sqrt() / 3.0).max(1.0);
            let grown = if self.growing {
                limit * 1.5
            } else {
                limit + step
            };
            self.decision = "grow";
            return self.set(grown, now);
        }
        self.growing = false;
        if let Some(start) = self.squeeze {
            let here = Reference {
                limit,
                throughput,
                latency: signal,
            };
            match self.reference {
                None => self.reference = Some(here),
                Some(before) if limit < 0.9 * before.limit => {
                    let half = f64::midpoint(1.0, limit / before.limit);
                    if !overloaded
                        && throughput < before.throughput * half
                        && signal > before.latency * half
                    {
                        self.base = Some(signal);
                        self.squeeze = None;
                        self.reference = None;
                        self.known = 0;
                        self.decision = "restore: not our queue";
                        return self.set(start, now);
                    }
                    self.reference = Some(here);
                }
                Some(_) => {}
            }
        } else {
            self.squeeze = Some(limit);
        }
        if congested {
            self.decision = "cut: queue";
            self.set(limit.min(limit * (base / signal).max(0.5) + allowance), now);
        } else {
            self.decision = "cut: overload";
            self.set(limit * 0.8, now);
        }
    }
}

impl Default for Verdict {
    fn default() -> Self {
        Self::new()
    }
}

impl Limit for Verdict {
    fn limit(&self) -> u32 {
        whole(self.limit).max(1)
    }

    fn sample(&mut self, sample: &Sample) {
        let now = sample.end.as_nanos() as f64;
        self.refused |= sample.refused;
        if now < self.settled {
            return;
        }
        if self.opened < self.settled {
            self.open(self.settled);
        }
        self.overloads += u32::from(sample.overload);
        self.latencies.record(sample.end.nanos_since(sample.start));
        self.peak = self.peak.max(sample.in_flight);
        let age = now - self.opened;
        if age >= MIN_WINDOW.max(2.0 * self.base.unwrap_or(0.0))
            && (self.latencies.len() >= MIN_SAMPLES || age >= MAX_WINDOW)
        {
            self.close(now, age);
        }
    }

    fn insight(&self) -> Insight {
        let span = |nanos: f64| Duration::from_secs_f64(nanos / 1e9);
        Insight {
            baseline: self.base.map(span),
            signal: self.base.map(|_| span(self.signal)),
            decision: self.decision,
        }
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("limit", &self.limit)
            .field("insight", &self.insight())
            .finish_non_exhaustive()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a limit lies between two whole numbers above 0"
)]
const fn whole(limit: f64) -> u32 {
    limit as u32
}
