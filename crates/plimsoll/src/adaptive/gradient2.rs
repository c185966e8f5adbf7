//! # How it works
//!
//! The ratio of a long-term average of latency to the latency now says by how much the server is slower than
//! it used to be. Multiply the limit by that, at most by 1 and at least by a half, and add a constant: while
//! nothing gets slower the limit grows by the constant, and where the queue that this builds balances the
//! constant it stays. A tolerance forgives so much slowness.
//!
//! The average follows whatever lasts, overload too, so under a lasting overload the limit drifts upwards.
//! Failures are not looked at. Both are how it was published.

use std::time::Duration;

use super::range::{Range, at_least_one, check_smoothing, range_setters};
use super::{Insight, Limit, Sample};
use crate::InvalidLimit;

/// Compares latency with its own long-term average.
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{Gradient2, Limit, Sample};
///
/// let mut limit = Gradient2::default();
/// let sample = Sample {
///     start: Moment::ORIGIN,
///     end: Moment::from_nanos(10_000_000),
///     in_flight: 20,
///     overload: false,
///     refused: false,
///     weight: 1,
/// };
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

/// Settings of a [`Gradient2`]. Nothing is checked before [`build`](Self::build), which says what is wrong.
#[derive(Clone, Debug)]
#[must_use]
pub struct Gradient2Builder {
    range: Range,
    smoothing: f64,
    long_window: u32,
    warmup: u32,
    tolerance: f64,
    queue_size: u32,
}

impl Gradient2 {
    /// Settings, at first the published defaults.
    pub const fn builder() -> Gradient2Builder {
        Gradient2Builder {
            range: Range {
                min: 20,
                initial: 20,
                max: 200,
            },
            smoothing: 0.2,
            long_window: 600,
            warmup: 10,
            tolerance: 1.5,
            queue_size: 4,
        }
    }
}

/// The published defaults.
impl Default for Gradient2 {
    fn default() -> Self {
        Self::builder().unchecked()
    }
}

impl Gradient2Builder {
    range_setters!(20, 20, 200, "At least the minimum");

    /// How much of each step is taken, 0.2 unless set. Above 0 and at most 1.
    pub const fn smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }

    /// Over about so many samples latency is averaged, 600 unless set. At least 1.
    pub const fn long_window(mut self, samples: u32) -> Self {
        self.long_window = samples;
        self
    }

    /// The plain mean of so many samples is where the average begins, 10 unless set.
    pub const fn warmup(mut self, samples: u32) -> Self {
        self.warmup = samples;
        self
    }

    /// So many times the average is still as good as the average, 1.5 unless set. At least 1.
    pub const fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// By so much the limit grows while nothing gets slower, 4 unless set. With 0 it never grows.
    pub const fn queue_size(mut self, size: u32) -> Self {
        self.queue_size = size;
        self
    }

    /// The algorithm.
    ///
    /// # Errors
    ///
    /// If a setting is outside of what its method allows.
    pub fn build(self) -> Result<Gradient2, InvalidLimit> {
        self.range.check()?;
        check_smoothing(self.smoothing)?;
        at_least_one("long_window", self.long_window)?;
        if !(self.tolerance >= 1.0 && self.tolerance.is_finite()) {
            let rule = "a number of at least 1";
            return Err(InvalidLimit::new("tolerance", self.tolerance, rule));
        }
        Ok(self.unchecked())
    }

    fn unchecked(self) -> Gradient2 {
        Gradient2 {
            range: self.range,
            smoothing: self.smoothing,
            tolerance: self.tolerance,
            queue_size: f64::from(self.queue_size),
            long: Average {
                warmup: self.warmup,
                weight: 2.0 / (f64::from(self.long_window) + 1.0),
                count: 0,
                sum: 0.0,
                value: 0.0,
            },
            estimate: f64::from(self.range.initial),
            signal: 0,
            decision: "",
        }
    }
}

impl Limit for Gradient2 {
    fn limit(&self) -> u32 {
        self.range.whole(self.estimate)
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let latency = sample.end.nanos_since(sample.start);
        if latency == 0 {
            // A clock that stood still or stepped back says nothing about the server.
            return;
        }
        self.signal = latency;
        let short = latency as f64;
        let long = self.long.add(short);
        if long / short > 2.0 {
            // Latency is back to normal after a long load: help the average down.
            self.long.value *= 0.95;
        }
        if f64::from(sample.in_flight) < self.estimate / 2.0 {
            self.decision = "kept: not in use";
            return;
        }
        let gradient = (self.tolerance * long / short).clamp(0.5, 1.0);
        let new = self.estimate * gradient + self.queue_size;
        let new = self.estimate * (1.0 - self.smoothing) + new * self.smoothing;
        let Range { min, max, .. } = self.range;
        let new = new.min(f64::from(max)).max(f64::from(min));
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
