use std::time::Duration;

use super::builder::{Builder, Tunable};
use super::range::{Range, at_least_one, check_smoothing, floor};
use super::{Insight, Limit, Sample};
use crate::InvalidLimit;

/// Estimates the length of the queue from the latency, as TCP Vegas does.
///
/// # How it works
///
/// The minimum latency so far is assumed to be that of an empty server. If a request takes r and that minimum is b, it
/// spent the fraction 1 − b/r of its time in a queue, so about limit·(1 − b/r) of the requests in flight are queued. If
/// few are queued, the limit grows; if many are, it shrinks. Steps and thresholds grow with the logarithm of the limit.
///
/// The minimum is wrong as soon as the service changes. So after a number of samples proportional to the limit it is
/// discarded, and the next sample becomes the new minimum. The number is random within a range, so that servers do not
/// all probe at once.
///
/// # The formula
///
/// queue = ⌈limit · (1 − b/r)⌉, with the minimum latency b and the current latency r. Below the lower threshold the
/// limit grows by a step, above the upper one it shrinks by a step, between them it does not change; the step and the
/// thresholds are multiples of log₁₀(limit), at least 1.
///
/// # When to choose it
///
/// When the latency of an idle service is stable: one kind of work, of one size. With work of different sizes the
/// minimum is the latency of the smallest, and all other work looks queued.
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{Limit, Sample, Vegas};
///
/// let mut limit = Vegas::builder().initial(10).build()?;
/// let took = |millis: u64| Sample::new(Moment::ORIGIN, Moment::from_nanos(millis * 1_000_000), 10);
/// limit.sample(&took(10));
/// limit.sample(&took(10));
/// assert_eq!(limit.limit(), 16);
/// limit.sample(&took(50));
/// assert_eq!(limit.limit(), 15);
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Vegas {
    range: Range,
    smoothing: f64,
    /// The multiplier of the probes; infinite for no probes.
    probes: f64,
    jitters: Jitters,
    jitter: f64,
    /// Samples since the last probe.
    count: u64,
    estimate: f64,
    /// The unit of steps and thresholds at this estimate.
    step: f64,
    /// The latency of an empty server in nanoseconds; 0 before the first sample.
    baseline: u64,
    signal: u64,
    decision: &'static str,
}

/// The settings of a [`Vegas`] other than its bounds.
#[derive(Clone, Debug)]
pub struct VegasSettings {
    smoothing: f64,
    probe_multiplier: u32,
    probe_jitter: Vec<f64>,
    seed: u64,
}

/// The multiplier that disables probes.
const NEVER: u32 = i32::MAX.cast_unsigned();

impl Vegas {
    /// Returns a builder with the published defaults: a limit from 1 to 1000 that starts at 20, a smoothing of 1, and a
    /// probe after 30 samples for each unit of the limit, with random jitter.
    pub const fn builder() -> Builder<Self> {
        let own = VegasSettings {
            smoothing: 1.0,
            probe_multiplier: 30,
            probe_jitter: Vec::new(),
            seed: 0,
        };
        Builder::new((1, 20, 1000), own)
    }

    #[inline]
    fn update(&mut self, latency: u64, sample: &Sample) {
        let (limit, step) = (self.estimate, self.step);
        // The published algorithm rounds this up. In comparisons with whole numbers that makes a difference only for
        // "below".
        let queue = limit * (1.0 - self.baseline as f64 / latency as f64);
        let new = if sample.overload {
            self.decision = "cut: overload";
            limit - step
        } else if (sample.in_flight as f64) * 2.0 < limit {
            self.decision = "kept: not in use";
            return;
        } else if queue <= step {
            self.decision = "grown: no queue";
            limit + 6.0 * step
        } else if queue <= 3.0 * step - 1.0 {
            self.decision = "grown: a short queue";
            limit + step
        } else if queue > 6.0 * step {
            self.decision = "cut: a long queue";
            limit - step
        } else {
            self.decision = "kept: queue as wanted";
            return;
        };
        self.move_to(new);
    }

    fn move_to(&mut self, new: f64) {
        let Range { min, max, .. } = self.range;
        let new = new.min(max as f64).max(min as f64);
        self.estimate = (1.0 - self.smoothing) * self.estimate + self.smoothing * new;
        self.step = step(self.estimate);
    }
}

/// The whole decimal logarithm of the limit, at least 1.
fn step(limit: f64) -> f64 {
    let log = floor(limit).checked_ilog10().unwrap_or(0);
    f64::from(log.max(1))
}

/// Builds the algorithm with the published defaults.
impl Default for Vegas {
    fn default() -> Self {
        Self::builder().unchecked()
    }
}

impl Builder<Vegas> {
    /// Sets the fraction of each step that is applied, above 0 and at most 1. Default: 1. A smaller fraction makes the
    /// limit steadier, and slower to follow the service.
    pub const fn smoothing(mut self, smoothing: f64) -> Self {
        self.own.smoothing = smoothing;
        self
    }

    /// Sets the number of samples for each unit of the limit, times a jitter, after which the minimum latency is
    /// discarded. At least 1; 2147483647 disables probes. Default: 30.
    pub const fn probe_multiplier(mut self, multiplier: u32) -> Self {
        self.own.probe_multiplier = multiplier;
        self
    }

    /// Sets the jitters of the probes, which are used in turn; each must be above 0. Default, and with an empty list:
    /// random jitters from 0.5 to 1.
    pub fn probe_jitter(mut self, jitters: impl Into<Vec<f64>>) -> Self {
        self.own.probe_jitter = jitters.into();
        self
    }

    /// Sets the seed of the random jitters. Default: 0. Servers that should not probe at the same time need different
    /// seeds.
    ///
    /// ```
    /// use plimsoll::adaptive::{Limit, Vegas};
    ///
    /// let own = std::process::id();
    /// let limit = Vegas::builder().max(500).seed(own.into()).build()?;
    /// assert_eq!(limit.limit(), 20);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    pub const fn seed(mut self, seed: u64) -> Self {
        self.own.seed = seed;
        self
    }
}

impl Tunable for Vegas {
    type Own = VegasSettings;

    fn check(range: Range, own: &VegasSettings) -> Result<(), InvalidLimit> {
        range.check()?;
        check_smoothing(own.smoothing)?;
        at_least_one("probe_multiplier", own.probe_multiplier.into())?;
        let wrong = |jitter: &&f64| !(**jitter > 0.0 && jitter.is_finite());
        if let Some(jitter) = own.probe_jitter.iter().find(wrong) {
            let rule = "only numbers above 0";
            return Err(InvalidLimit::new("probe_jitter", jitter, rule));
        }
        Ok(())
    }

    fn assemble(range: Range, own: VegasSettings) -> Self {
        let mut jitters = Jitters {
            given: own.probe_jitter.into(),
            next: 0,
            random: own.seed,
        };
        let probes = match own.probe_multiplier {
            NEVER => f64::INFINITY,
            multiplier => f64::from(multiplier),
        };
        Self {
            range,
            smoothing: own.smoothing,
            probes,
            jitter: jitters.next(),
            jitters,
            count: 0,
            estimate: range.initial as f64,
            step: step(range.initial as f64),
            baseline: 0,
            signal: 0,
            decision: "",
        }
    }
}

impl Limit for Vegas {
    fn limit(&self) -> u64 {
        self.range.whole(self.estimate)
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let latency = sample.end.nanos_since(sample.start);
        if latency == 0 {
            // The clock stood still or stepped back. As the minimum it would make every other latency look queued. A
            // failure still counts.
            if sample.overload {
                self.decision = "cut: overload";
                self.move_to(self.estimate - self.step);
            }
            return;
        }
        self.signal = latency;
        self.count += 1;
        if self.jitter * self.probes * self.estimate <= self.count as f64 {
            self.count = 0;
            self.jitter = self.jitters.next();
            self.baseline = latency;
            self.decision = "kept: probed";
        } else if self.baseline == 0 || latency < self.baseline {
            self.baseline = latency;
            self.decision = "kept: a new least latency";
        } else {
            self.update(latency, sample);
        }
    }

    fn insight(&self) -> Insight {
        let seen = |nanos| (nanos > 0).then(|| Duration::from_nanos(nanos));
        Insight {
            baseline: seen(self.baseline),
            signal: seen(self.signal),
            decision: self.decision,
            ..Insight::default()
        }
    }
}

/// The jitters of the probes: a fixed list of numbers in turn, or random ones in [0.5, 1).
#[derive(Clone, Debug)]
struct Jitters {
    given: Box<[f64]>,
    next: usize,
    random: u64,
}

impl Jitters {
    fn next(&mut self) -> f64 {
        if let Some(jitter) = self.given.get(self.next) {
            self.next = (self.next + 1) % self.given.len();
            return *jitter;
        }
        // Weyl's sequence, its bits mixed: any seed is a good one.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        0.5 + ((mixed >> 12) as f64) / ((1_u64 << 53) as f64)
    }
}
