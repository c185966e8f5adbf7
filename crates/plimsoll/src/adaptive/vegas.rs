use std::time::Duration;

use super::builder::{Builder, Tunable};
use super::range::{Range, at_least_one, check_smoothing, floor};
use super::{Insight, Limit, Sample};
use crate::InvalidLimit;

/// Estimates the queue from latency, as TCP Vegas does.
///
/// # How it works
///
/// The least latency seen is taken for that of an empty server. If a request now takes r and that least is b,
/// a share 1 − b/r of its time was spent in a queue, so about limit·(1 − b/r) of what is in flight is queued.
/// Few queued: more is let in. Many: less. Steps grow with the logarithm of the limit, and so do the
/// thresholds.
///
/// The least latency would hold for ever, and be wrong as soon as the service changes. So every so
/// often, after a number of samples in proportion to the limit, whatever comes next is taken for the least.
/// The number is scattered, lest many servers forget at once.
///
/// # The formula
///
/// queue = ⌈limit · (1 − b/r)⌉, with the least latency b and the latency r now. Below the lower threshold the limit grows by
/// a step, above the upper one it shrinks by a step, between them it stays; the step and the thresholds are multiples of
/// log₁₀(limit), at least 1.
///
/// # When to choose it
///
/// When the latency of an idle service is stable: one kind of work, of one size. Work of different sizes makes the least
/// latency that of the smallest, and everything else look like a queue.
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
    /// The multiplier of the probes; infinite: never.
    probes: f64,
    jitters: Jitters,
    jitter: f64,
    /// Samples since the last probe.
    count: u64,
    estimate: f64,
    /// The unit of steps and thresholds at this estimate.
    step: f64,
    /// The latency of an empty server in nanoseconds; 0 if nothing was seen yet.
    baseline: u64,
    signal: u64,
    decision: &'static str,
}

/// The settings of a [`Vegas`] beside its bounds.
#[derive(Clone, Debug)]
pub struct VegasSettings {
    smoothing: f64,
    probe_multiplier: u32,
    probe_jitter: Vec<f64>,
    seed: u64,
}

/// The multiplier that stands for no probes at all.
const NEVER: u32 = i32::MAX.cast_unsigned();

impl Vegas {
    /// Settings, at first the published defaults: from 1 to 1000, at first 20; a smoothing of 1; a probe after 30
    /// samples for each unit of the limit, with random jitter.
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
        // As published this is rounded up. Against whole numbers that makes no difference, except for "below".
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

/// The published defaults.
impl Default for Vegas {
    fn default() -> Self {
        Self::builder().unchecked()
    }
}

impl Builder<Vegas> {
    /// How much of each step is taken, all of it unless set. Above 0 and at most 1. Less makes the limit calmer, and slower
    /// to follow the service.
    pub const fn smoothing(mut self, smoothing: f64) -> Self {
        self.own.smoothing = smoothing;
        self
    }

    /// Forgets the least latency after so many samples for each unit of the limit, 30 unless set, times a
    /// jitter. At least 1; 2147483647 is never.
    pub const fn probe_multiplier(mut self, multiplier: u32) -> Self {
        self.own.probe_multiplier = multiplier;
        self
    }

    /// The jitters of the probes, used in turn, instead of random ones from 0.5 to 1. All above 0; none are
    /// random ones.
    pub fn probe_jitter(mut self, jitters: impl Into<Vec<f64>>) -> Self {
        self.own.probe_jitter = jitters.into();
        self
    }

    /// Where the random jitters begin, 0 unless set. Of servers that should not probe at the same time, each
    /// needs its own.
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
            // A clock that stood still or stepped back. As the least latency it would make every other look
            // like a queue; that work failed is true all the same.
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

/// What scatters the probes: a fixed list of numbers in turn, or random ones in [0.5, 1).
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
