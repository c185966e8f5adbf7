use std::cmp::Ordering;
use std::time::Duration;

use super::builder::{Builder, Tunable};
use super::range::{Range, ceil, floor, root_rounded_up};
use super::{Insight, Limit, Load, Sample};
use crate::InvalidLimit;

/// Compares the average latency with its own minimum, and grows by the number of waiting demands.
///
/// # How it works
///
/// The average latency since the start is compared with the minimum that this average has ever had. Their ratio, times
/// a tolerance, at most 1 and at least ½, is the gradient. Every half second, if at least half of the limit is in use,
/// the limit becomes limit·gradient + the number of waiting demands: the limit grows only while demands wait. A cut
/// applies a fifth of the step, and happens only while the average still rises.
///
/// The average covers all samples since the start, so after hours of traffic it changes slowly. While there is almost
/// no traffic, it is lowered by a tenth at each tick until it is within the tolerance; then all measurements are
/// discarded.
///
/// The bound of the queue is the square root of the limit, and at least its minimum.
///
/// # When to choose it
///
/// To behave like limiters that were tuned with this algorithm. [`Verdict`](super::Verdict) follows changes faster, and
/// needs no tolerance.
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{LatencyGradient, Limit, Load, Sample};
///
/// let mut limit = LatencyGradient::default();
/// limit.sample(&Sample::new(Moment::ORIGIN, Moment::from_nanos(10_000_000), 5));
/// limit.tick(Load::new(Moment::ORIGIN, 5, 3));
/// assert_eq!(limit.limit(), 8);
/// assert_eq!(limit.queue_bound(), Some(20));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct LatencyGradient {
    range: Range,
    tolerance: f64,
    min_queue: u64,
    limit: u64,
    queue: u64,
    measures: Measures,
    /// The average at the previous tick.
    before: u64,
    decision: &'static str,
}

/// The settings of a [`LatencyGradient`] other than its bounds.
#[derive(Clone, Copy, Debug)]
pub struct LatencyGradientSettings {
    tolerance: f64,
    min_queue: u64,
    initial_queue: u64,
}

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(500);

impl LatencyGradient {
    /// Returns a builder with the published defaults: a limit from 5 to 500 that starts at 5, a tolerance of 1.5, and a
    /// queue that starts at its minimum of 20 and grows with the square root of the limit, unless the gate has [a
    /// function](crate::GateBuilder::queue_size) for it. The maximum must be above the minimum.
    pub const fn builder() -> Builder<Self> {
        let own = LatencyGradientSettings {
            tolerance: 1.5,
            min_queue: 20,
            initial_queue: 20,
        };
        Builder::new((5, 5, 500), own)
    }

    /// Returns the average latency in milliseconds, rounded up; 0 before the first sample.
    #[must_use]
    pub const fn average_ms(&self) -> u64 {
        self.measures.average
    }

    /// Returns the minimum that the average has had, in milliseconds.
    #[must_use]
    pub const fn least_average_ms(&self) -> Option<u64> {
        match self.measures.least {
            Measures::NONE => None,
            least => Some(least),
        }
    }

    /// Returns the number of samples in the average.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.measures.samples
    }

    fn next_limit(&self, queued: u64) -> (u64, &'static str) {
        let Measures { average, least, .. } = self.measures;
        if average == 0 {
            return (self.limit, "kept: no samples");
        }
        let limit = self.limit as f64;
        let gradient = (least as f64 * self.tolerance / average as f64).clamp(0.5, 1.0);
        let mut new = limit * gradient + queued as f64;
        if new < limit {
            new = 0.8 * limit + 0.2 * new;
        }
        new = new.min(self.range.max as f64);
        if new < limit && self.before >= average {
            return (self.limit, "kept: slow, but no slower than before");
        }
        let new = self.range.whole(new);
        let decision = match new.cmp(&self.limit) {
            Ordering::Less => "cut: slower than it was",
            Ordering::Equal => "kept: nothing to change",
            Ordering::Greater => "grown: by what waits",
        };
        (new, decision)
    }
}

/// Builds the algorithm with the published defaults.
impl Default for LatencyGradient {
    fn default() -> Self {
        Self::builder().unchecked()
    }
}

impl Builder<LatencyGradient> {
    /// Sets the average latency, as a multiple of its minimum, up to which the limit is not cut. Above 1. Default: 1.5.
    pub const fn tolerance(mut self, tolerance: f64) -> Self {
        self.own.tolerance = tolerance;
        self
    }

    /// Sets the minimum bound of the queue. At least 1. Default: 20.
    pub const fn min_queue(mut self, queue: u64) -> Self {
        self.own.min_queue = queue;
        self
    }

    /// Sets the initial bound of the queue. At least the minimum. Default: 20.
    pub const fn initial_queue(mut self, queue: u64) -> Self {
        self.own.initial_queue = queue;
        self
    }
}

impl Tunable for LatencyGradient {
    type Own = LatencyGradientSettings;

    fn check(range: Range, own: &LatencyGradientSettings) -> Result<(), InvalidLimit> {
        range.check_with_queue(own.tolerance, (own.min_queue, own.initial_queue))
    }

    fn assemble(range: Range, own: LatencyGradientSettings) -> Self {
        Self {
            range,
            tolerance: own.tolerance,
            min_queue: own.min_queue,
            limit: range.initial,
            queue: own.initial_queue,
            measures: Measures::default(),
            before: 0,
            decision: "",
        }
    }
}

impl Limit for LatencyGradient {
    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let latency = sample.end.nanos_since(sample.start);
        self.measures.add(latency as f64 / 1e6);
    }

    fn tick_every(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn tick(&mut self, load: Load) {
        let usage = load.in_flight as f64 * 100.0 / self.limit as f64;
        if usage <= 10.0 {
            self.measures.recover(self.tolerance);
            self.decision = "kept: hardly in use";
        } else if usage >= 50.0 {
            (self.limit, self.decision) = self.next_limit(load.queued);
            self.queue = root_rounded_up(self.limit).max(self.min_queue);
        } else {
            self.decision = "kept: not in use";
        }
        self.before = self.measures.average;
    }

    fn queue_bound(&self) -> Option<u64> {
        Some(self.queue)
    }

    fn insight(&self) -> Insight {
        let average = Some(self.measures.average).filter(|ms| *ms > 0);
        Insight {
            baseline: self.least_average_ms().map(Duration::from_millis),
            signal: average.map(Duration::from_millis),
            decision: self.decision,
            ..Insight::default()
        }
    }
}

/// Latencies since the start, or since they were discarded. All in milliseconds.
#[derive(Clone, Debug)]
struct Measures {
    samples: u64,
    total: f64,
    average: u64,
    least: u64,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            samples: 0,
            total: 0.0,
            average: 0,
            least: Self::NONE,
        }
    }
}

impl Measures {
    /// The average without samples, and the longest latency that is recorded.
    const NONE: u64 = i32::MAX as u64;

    #[inline]
    fn add(&mut self, millis: f64) {
        self.samples += 1;
        self.total += millis.min(Self::NONE as f64);
        // A latency of 0 counts as a millisecond: with a minimum of 0 no later average would be within the tolerance.
        self.average = ceil(self.total / self.samples as f64).max(1);
        self.least = self.least.min(self.average);
    }

    /// Lowers the average by a tenth, and discards everything once it is within the tolerance.
    fn recover(&mut self, tolerance: f64) {
        if self.is_good(tolerance) {
            return;
        }
        self.total = (self.total * 0.9).floor();
        self.average = floor(self.total / self.samples as f64);
        if self.is_good(tolerance) {
            *self = Self::default();
        }
    }

    fn is_good(&self, tolerance: f64) -> bool {
        self.least as f64 * tolerance > self.average as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published facts about the next limit, some from settings that cannot be built.
    #[test]
    fn the_next_limit() {
        let facts = [
            // limit, waiting, average before, tolerance, minimum, and the result
            (1, 2, 0, 0.2, 20, 20),
            (1, 2, 0, 1.5, 20, 20),
            (2, 2, 0, 1.5, 20, 20),
            (5, 1, 0, 0.8, 10, 10),
            (5, 1, 0, 0.8, 2, 5),
            (5, 1, 60, 0.8, 2, 5),
            (0, 0, 0, 1.5, 20, 20),
        ];
        for (limit, queued, before, tolerance, min, next) in facts {
            let mut algorithm = LatencyGradient::builder()
                .min(min)
                .initial(limit)
                .tolerance(tolerance)
                .unchecked();
            algorithm.before = before;
            algorithm.measures.add(50.0);
            assert_eq!(algorithm.next_limit(queued).0, next);
        }
    }

    #[test]
    fn the_least_is_that_of_the_average_not_of_the_samples() {
        let mut measures = Measures::default();
        for millis in [50.0, 30.0, 55.0, 60.0, 25.0] {
            measures.add(millis);
        }
        let Measures {
            average,
            least,
            samples,
            ..
        } = measures;
        assert_eq!((average, least, samples), (44, 40, 5));
    }

    #[test]
    fn the_average_is_led_back_only_beyond_the_tolerance() {
        for (tolerance, average) in [(1.5, 50), (0.8, 45)] {
            let mut measures = Measures::default();
            measures.add(50.0);
            measures.recover(tolerance);
            assert_eq!(measures.average, average);
        }
    }
}
