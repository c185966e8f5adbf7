use std::time::Duration;

use super::builder::{Builder, Tunable};
use super::range::{Range, at_least_one, check_smoothing};
use super::{Insight, Limit, Sample};
use crate::InvalidLimit;

/// Compares the latency with its long-term average.
///
/// # How it works
///
/// The ratio of a long-term average of the latency to the current latency measures how much the server has slowed down.
/// Each step multiplies the limit by that ratio, at most 1 and at least ½, and adds a constant. While the latency stays
/// the same, the limit grows by the constant; it settles where the queue that this builds balances the constant. The
/// tolerance is the slowdown that does not yet cut the limit.
///
/// The average follows lasting overload too, so the limit then drifts upwards. Failures are ignored. Both are as
/// published.
///
/// # The formula
///
/// With the long-term average a, the current latency r and the tolerance t: gradient = min(1, max(½, t · a / r)), and
/// limit ← (1 − s) · limit + s · (limit · gradient + queue size), with the smoothing s.
///
/// # When to choose it
///
/// When latencies vary by nature, and overloads are short.
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{Gradient2, Limit, Sample};
///
/// let mut limit = Gradient2::default();
/// let sample = Sample::new(Moment::ORIGIN, Moment::from_nanos(10_000_000), 20);
/// for _ in 0..5 {
///     limit.sample(&sample);
/// }
/// assert_eq!(limit.limit(), 24);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Gradient2 {
    range: Range,
    smoothing: f64,
    tolerance: f64,
    queue_size: f64,
    long: Average,
    estimate: f64,
    signal: u64,
    decision: &'static str,
}

/// The settings of a [`Gradient2`] other than its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Gradient2Settings {
    smoothing: f64,
    long_window: u32,
    warmup: u32,
    tolerance: f64,
    queue_size: u64,
}

impl Gradient2 {
    /// Returns a builder with the published defaults: a limit from 20 to 200 that starts at 20, a smoothing of 0.2, an
    /// average over 600 samples after 10 to warm up, a tolerance of 1.5, a queue of 4.
    pub const fn builder() -> Builder<Self> {
        let own = Gradient2Settings {
            smoothing: 0.2,
            long_window: 600,
            warmup: 10,
            tolerance: 1.5,
            queue_size: 4,
        };
        Builder::new((20, 20, 200), own)
    }
}

/// Builds the algorithm with the published defaults.
impl Default for Gradient2 {
    fn default() -> Self {
        Self::builder().unchecked()
    }
}

impl Builder<Gradient2> {
    /// Sets the fraction of each step that is applied, above 0 and at most 1. Default: 0.2.
    pub const fn smoothing(mut self, smoothing: f64) -> Self {
        self.own.smoothing = smoothing;
        self
    }

    /// Sets the approximate number of samples in the long-term average. At least 1. Default: 600.
    pub const fn long_window(mut self, samples: u32) -> Self {
        self.own.long_window = samples;
        self
    }

    /// Sets the number of samples that are averaged with equal weight at the start. Default: 10.
    pub const fn warmup(mut self, samples: u32) -> Self {
        self.own.warmup = samples;
        self
    }

    /// Sets the latency, as a multiple of the average, up to which the limit is not cut. At least 1. Default: 1.5.
    pub const fn tolerance(mut self, tolerance: f64) -> Self {
        self.own.tolerance = tolerance;
        self
    }

    /// Sets the amount by which the limit grows while the latency stays the same. With 0 it never grows. Default: 4.
    ///
    /// ```
    /// use plimsoll::Moment;
    /// use plimsoll::adaptive::{Gradient2, Limit, Sample};
    ///
    /// // All of each step, and ten more each time that the latency is as usual.
    /// let mut limit = Gradient2::builder().smoothing(1.0).queue_size(10).build()?;
    /// limit.sample(&Sample::new(Moment::ORIGIN, Moment::from_nanos(10_000_000), 20));
    /// assert_eq!(limit.limit(), 30);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    pub const fn queue_size(mut self, size: u64) -> Self {
        self.own.queue_size = size;
        self
    }
}

impl Tunable for Gradient2 {
    type Own = Gradient2Settings;

    fn check(range: Range, own: &Gradient2Settings) -> Result<(), InvalidLimit> {
        range.check()?;
        check_smoothing(own.smoothing)?;
        at_least_one("long_window", own.long_window.into())?;
        if !(own.tolerance >= 1.0 && own.tolerance.is_finite()) {
            let rule = "a number of at least 1";
            return Err(InvalidLimit::new("tolerance", own.tolerance, rule));
        }
        Ok(())
    }

    fn assemble(range: Range, own: Gradient2Settings) -> Self {
        Self {
            range,
            smoothing: own.smoothing,
            tolerance: own.tolerance,
            queue_size: own.queue_size as f64,
            long: Average {
                warmup: own.warmup,
                weight: 2.0 / (f64::from(own.long_window) + 1.0),
                count: 0,
                sum: 0.0,
                value: 0.0,
            },
            estimate: range.initial as f64,
            signal: 0,
            decision: "",
        }
    }
}

impl Limit for Gradient2 {
    fn limit(&self) -> u64 {
        self.range.whole(self.estimate)
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let latency = sample.end.nanos_since(sample.start);
        if latency == 0 {
            // A latency of 0 is a clock that stood still or stepped back, not a measurement of the server.
            return;
        }
        self.signal = latency;
        let short = latency as f64;
        let long = self.long.add(short);
        if long / short > 2.0 {
            // Latency is back to normal after a long load: lower the average faster.
            self.long.value *= 0.95;
        }
        if (sample.in_flight as f64) < self.estimate / 2.0 {
            self.decision = "kept: not in use";
            return;
        }
        let gradient = (self.tolerance * long / short).clamp(0.5, 1.0);
        let new = self.estimate * gradient + self.queue_size;
        let new = self.estimate * (1.0 - self.smoothing) + new * self.smoothing;
        let Range { min, max, .. } = self.range;
        let new = new.min(max as f64).max(min as f64);
        self.decision = if new < self.estimate {
            "cut: slower than usual"
        } else if gradient < 1.0 {
            "grown: hardly slower than usual"
        } else {
            "grown: no slower than usual"
        };
        self.estimate = new;
    }

    fn insight(&self) -> Insight {
        let seen = self.signal > 0;
        Insight {
            baseline: seen.then(|| Duration::from_secs_f64(self.long.value / 1e9)),
            signal: seen.then(|| Duration::from_nanos(self.signal)),
            decision: self.decision,
            ..Insight::default()
        }
    }
}

/// The mean of the first values, then an exponential average.
#[derive(Clone, Debug)]
struct Average {
    warmup: u32,
    weight: f64,
    count: u32,
    sum: f64,
    value: f64,
}

impl Average {
    #[inline]
    fn add(&mut self, value: f64) -> f64 {
        if self.count < self.warmup {
            self.count += 1;
            self.sum += value;
            self.value = self.sum / f64::from(self.count);
        } else {
            self.value = self.value * (1.0 - self.weight) + value * self.weight;
        }
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_warms_up_and_then_follows_slowly() {
        let mut average = Gradient2::builder().long_window(100).unchecked().long;
        let means: Vec<f64> = (10..20).map(|n| average.add(f64::from(n))).collect();
        let expected: Vec<f64> = (0..10).map(|n| 10.0 + f64::from(n) / 2.0).collect();
        assert_eq!(means, expected);
        assert!((average.add(100.0) - 16.2).abs() < 0.01);
    }
}
