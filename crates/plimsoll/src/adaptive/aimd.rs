use std::time::Duration;

use super::builder::{Builder, Tunable};
use super::range::{Range, floor};
use super::{Insight, Limit, Sample};
use crate::InvalidLimit;
use crate::moment::saturating_nanos;

/// Additive increase, multiplicative decrease: raises the limit by one for each success, cuts it for each failure.
///
/// # How it works
///
/// It works like the congestion control of TCP: every success while the limit is in use adds one, and a failure cuts
/// the limit by a fraction. A failure is work that reported overload or took longer than a timeout.
///
/// The timeout is the only latency that it uses. If the timeout fits the service, the algorithm is hard to beat; if the
/// service becomes slower for another reason than overload, it cuts the limit to the minimum and stays there.
///
/// # The formula
///
/// With backoff b: limit ← limit + 1 for a success while at least half of the limit is in flight, and limit ← ⌊limit · b⌋
/// for a failure, within the bounds.
///
/// # When to choose it
///
/// When only an overloaded service exceeds a known timeout, or when the service itself reports overload.
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{Aimd, Limit, Sample};
///
/// let mut limit = Aimd::builder().min(1).initial(30).build()?;
/// let sample = Sample::new(Moment::ORIGIN, Moment::from_nanos(10_000_000), 20);
/// limit.sample(&sample);
/// assert_eq!(limit.limit(), 31);
/// limit.sample(&sample.overload(true));
/// assert_eq!(limit.limit(), 27);
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Aimd {
    range: Range,
    backoff: f64,
    timeout: u64,
    limit: u64,
    signal: Option<u64>,
    decision: &'static str,
}

/// The settings of an [`Aimd`] other than its bounds.
#[derive(Clone, Copy, Debug)]
pub struct AimdSettings {
    backoff: f64,
    timeout: Duration,
}

impl Aimd {
    /// Returns a builder with the published defaults: a limit from 20 to 200 that starts at 20, a backoff of 0.9, a
    /// timeout of 5 seconds.
    pub const fn builder() -> Builder<Self> {
        let own = AimdSettings {
            backoff: 0.9,
            timeout: Duration::from_secs(5),
        };
        Builder::new((20, 20, 200), own)
    }
}

/// Builds the algorithm with the published defaults.
impl Default for Aimd {
    fn default() -> Self {
        Self::builder().unchecked()
    }
}

impl Builder<Aimd> {
    /// Sets the factor by which a failure multiplies the limit. At least 0.5 and below 1. Default: 0.9.
    ///
    /// ```
    /// use plimsoll::Moment;
    /// use plimsoll::adaptive::{Aimd, Limit, Sample};
    ///
    /// let mut limit = Aimd::builder().initial(100).backoff(0.5).build()?;
    /// let sample = Sample::new(Moment::ORIGIN, Moment::from_nanos(10_000_000), 100);
    /// limit.sample(&sample.overload(true));
    /// assert_eq!(limit.limit(), 50);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    pub const fn backoff(mut self, backoff: f64) -> Self {
        self.own.backoff = backoff;
        self
    }

    /// Sets the latency above which work counts as a failure. More than 0. Default: 5 seconds.
    ///
    /// ```
    /// use plimsoll::Moment;
    /// use plimsoll::adaptive::{Aimd, Limit, Sample};
    /// use std::time::Duration;
    ///
    /// let builder = Aimd::builder().initial(100).timeout(Duration::from_millis(250));
    /// let mut limit = builder.build()?;
    /// limit.sample(&Sample::new(Moment::ORIGIN, Moment::from_nanos(300_000_000), 100));
    /// assert_eq!(limit.limit(), 90);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.own.timeout = timeout;
        self
    }
}

impl Tunable for Aimd {
    type Own = AimdSettings;

    fn check(range: Range, own: &AimdSettings) -> Result<(), InvalidLimit> {
        range.check()?;
        if !(0.5..1.0).contains(&own.backoff) {
            let rule = "at least 0.5 and below 1";
            return Err(InvalidLimit::new("backoff", own.backoff, rule));
        }
        if own.timeout.is_zero() {
            return Err(InvalidLimit::new("timeout", "0ns", "at least 1ns"));
        }
        Ok(())
    }

    fn assemble(range: Range, own: AimdSettings) -> Self {
        Self {
            range,
            backoff: own.backoff,
            timeout: saturating_nanos(own.timeout),
            limit: range.initial,
            signal: None,
            decision: "",
        }
    }
}

impl Limit for Aimd {
    fn limit(&self) -> u64 {
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
            floor(self.limit as f64 * self.backoff)
        } else if sample.in_flight >= self.limit.div_ceil(2) {
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
            ..Insight::default()
        }
    }
}
