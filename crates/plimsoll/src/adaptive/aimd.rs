//! # How it works
//!
//! As TCP finds the width of a path: one more for every success while the limit is in use, and a cut by a
//! fraction when something goes wrong. Wrong is what failed for overload, or took longer than a timeout.
//!
//! It knows no latency but that timeout. Where that fits the service it is hard to beat; where the service
//! becomes slower for reasons of its own it cuts to the minimum and stays there.

use std::time::Duration;

use super::range::{Range, floor, range_setters};
use super::{Insight, Limit, Sample};
use crate::InvalidLimit;
use crate::moment::saturating_nanos;

/// Additive increase, multiplicative decrease: one more for each success, a cut for each failure.
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{Aimd, Limit, Sample};
///
/// let mut limit = Aimd::builder().min(1).initial(30).build()?;
/// let sample = Sample {
///     start: Moment::ORIGIN,
///     end: Moment::from_nanos(10_000_000),
///     in_flight: 20,
///     overload: false,
///     refused: false,
///     weight: 1,
/// };
/// limit.sample(&sample);
/// assert_eq!(limit.limit(), 31);
/// limit.sample(&Sample { overload: true, ..sample });
/// assert_eq!(limit.limit(), 27);
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Aimd {
    range: Range,
    backoff: f64,
    timeout: u64,
    limit: u32,
    signal: Option<u64>,
    decision: &'static str,
}

/// Settings of an [`Aimd`]. Nothing is checked before [`build`](Self::build), which says what is wrong.
#[derive(Clone, Debug)]
#[must_use]
pub struct AimdBuilder {
    range: Range,
    backoff: f64,
    timeout: Duration,
}

impl Aimd {
    /// Settings, at first the published defaults.
    pub const fn builder() -> AimdBuilder {
        AimdBuilder {
            range: Range {
                min: 20,
                initial: 20,
                max: 200,
            },
            backoff: 0.9,
            timeout: Duration::from_secs(5),
        }
    }
}

/// The published defaults.
impl Default for Aimd {
    fn default() -> Self {
        Self::builder().unchecked()
    }
}

impl AimdBuilder {
    range_setters!(20, 20, 200, "At least the minimum");

    /// By what the limit is multiplied at a failure, 0.9 unless set. At least 0.5 and below 1.
    pub const fn backoff(mut self, backoff: f64) -> Self {
        self.backoff = backoff;
        self
    }

    /// Takes what lasts longer than this for a failure, 5 seconds unless set. More than 0.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The algorithm.
    ///
    /// # Errors
    ///
    /// If a setting is outside of what its method allows.
    pub fn build(self) -> Result<Aimd, InvalidLimit> {
        self.range.check()?;
        if !(0.5..1.0).contains(&self.backoff) {
            let rule = "at least 0.5 and below 1";
            return Err(InvalidLimit::new("backoff", self.backoff, rule));
        }
        if self.timeout.is_zero() {
            return Err(InvalidLimit::new("timeout", "0ns", "at least 1ns"));
        }
        Ok(self.unchecked())
    }

    fn unchecked(self) -> Aimd {
        Aimd {
            range: self.range,
            backoff: self.backoff,
            timeout: saturating_nanos(self.timeout),
            limit: self.range.initial,
            signal: None,
            decision: "",
        }
    }
}

impl Limit for Aimd {
    fn limit(&self) -> u32 {
        self.limit
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let latency = sample.end.nanos_since(sample.start);
        self.signal = Some(latency);
        let limit = if sample.overload || latency > self.timeout {
            self.decision = if sample.overload {
                "cut: overload"
            } else {
                "cut: over the timeout"
            };
            floor(f64::from(self.limit) * self.backoff)
        } else if u64::from(sample.in_flight) * 2 >= u64::from(self.limit) {
            self.decision = "grown: in use";
            self.limit.saturating_add(1)
        } else {
            self.decision = "kept: not in use";
            return;
        };
        self.limit = limit.clamp(self.range.min, self.range.max);
    }

    fn insight(&self) -> Insight {
        Insight {
            baseline: None,
            signal: self.signal.map(Duration::from_nanos),
            decision: self.decision,
        }
    }
}
