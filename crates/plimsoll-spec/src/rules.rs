//! From descriptions to rules: the one place that knows which rule a kind is.

use plimsoll::adaptive::{
    Adaptive, Aimd, Gradient2, LatencyGradient, Limit, Vegas, Verdict, Windowed,
};
use plimsoll::kinds::{self, Replenishes};
use plimsoll::{
    Bandwidths, Concurrency, FixedWindow, InvalidLimit, PenaltyBucket, Quota, Refresh,
    SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket,
};

use crate::any_rate::AnyRate;
use crate::place::Step;
use crate::spec::{Algorithm, Align, Bandwidth, Bucket, Kind, Positive, Style};

/// A rule that refuses its numbers, and where below the limiter they are.
#[derive(Debug)]
pub(crate) struct Unfit {
    pub(crate) path: Vec<Step<'static>>,
    pub(crate) invalid: InvalidLimit,
}

impl Unfit {
    pub(crate) fn under(mut self, step: Step<'static>) -> Self {
        self.path.insert(0, step);
        self
    }
}

impl From<InvalidLimit> for Unfit {
    fn from(invalid: InvalidLimit) -> Self {
        Self {
            path: Vec::new(),
            invalid,
        }
    }
}

/// The limit of a whole number at the same time.
pub(crate) type Found = Adaptive<Box<dyn Limit>>;

/// A rule that a file can describe, and replace by another of its kind.
pub(crate) trait FromKind: Replenishes + Clone + Sized {
    /// The rule, if the kind is this one.
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>>;
}

/// Does something with the rule of a kind, whatever type it has.
pub(crate) trait WithRule {
    type Out;

    fn rate(self, rule: AnyRate) -> Self::Out;
    fn concurrency(self, rule: Concurrency) -> Self::Out;
    fn adaptive(self, rule: Found) -> Self::Out;
    /// A kind that has no rule: `all`, `memory` and `cpu`.
    fn none(self) -> Self::Out;
}

/// Makes the rule of `kind` and does something with it.
pub(crate) fn with_rule<W: WithRule>(kind: &Kind, with: W) -> Result<W::Out, Unfit> {
    if let Some(rule) = AnyRate::of(kind) {
        return rule.map(|rule| with.rate(rule));
    }
    match kind {
        Kind::Concurrency { limit, .. } => Ok(with.concurrency(Concurrency::try_new(limit.0)?)),
        Kind::Adaptive(algorithm) => Ok(with.adaptive(Adaptive::new(found_by(algorithm)?))),
        _ => Ok(with.none()),
    }
}

/// Which of the three kinds a limiter is; `None` for `all`, where it depends on the members.
pub(crate) const fn class(kind: &Kind) -> Option<kinds::Kind> {
    Some(match kind {
        Kind::All { .. } => return None,
        Kind::Memory { .. } | Kind::Cpu { .. } => kinds::Kind::Basic,
        Kind::Concurrency { .. } | Kind::Adaptive(_) => kinds::Kind::Resource,
        _ => kinds::Kind::Rate,
    })
}

fn quota(limit: Positive, period: crate::spec::Period) -> Result<Quota, Unfit> {
    Ok(Quota::try_new(limit.0, period.into())?)
}

impl FromKind for FixedWindow {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::FixedWindow {
            limit,
            window,
            align,
        } = kind
        else {
            return None;
        };
        let window = quota(*limit, *window).map(Self::new);
        Some(window.map(|window| match align {
            Align::Start => window,
            Align::Epoch => window.aligned_to_epoch(),
        }))
    }
}

impl FromKind for SlidingWindow {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::SlidingWindow {
            limit,
            window,
            segments,
        } = kind
        else {
            return None;
        };
        let rule = |quota| Ok(Self::try_new(quota, segments.0)?);
        Some(quota(*limit, *window).and_then(rule))
    }
}

impl FromKind for SlidingLog {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::SlidingLog {
            limit,
            window,
            min_gap,
            count_denied,
        } = kind
        else {
            return None;
        };
        let rule = |quota| {
            let log = Self::new(quota).try_with_min_gap((*min_gap).into())?;
            Ok(if *count_denied {
                log.counting_refusals()
            } else {
                log
            })
        };
        Some(quota(*limit, *window).and_then(rule))
    }
}

impl FromKind for SlidingCounter {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::SlidingCounter { limit, window } = kind else {
            return None;
        };
        Some(quota(*limit, *window).map(Self::new))
    }
}

impl FromKind for Refresh {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::Refresh {
            limit,
            period,
            max_wait,
        } = kind
        else {
            return None;
        };
        let rule = |quota| Self::new(quota).with_max_wait((*max_wait).into());
        Some(quota(*limit, *period).map(rule))
    }
}

impl FromKind for TokenBucket {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::TokenBucket(bucket) = kind else {
            return None;
        };
        Some(bucket.rule())
    }
}

impl Bucket {
    fn rule(&self) -> Result<TokenBucket, Unfit> {
        let quota = quota(self.refill, self.every)?;
        let bucket = match self.style {
            Style::Interval => TokenBucket::interval(quota),
            Style::Greedy => TokenBucket::greedy(quota),
        };
        let bucket = bucket.try_with_burst(self.burst.0)?;
        Ok(bucket.try_with_initial(self.initial.unwrap_or(self.burst.0))?)
    }
}

impl Bandwidth {
    pub(crate) fn bucket(&self) -> Bucket {
        Bucket {
            burst: self.burst,
            refill: self.refill,
            every: self.every,
            style: self.style,
            initial: self.initial,
        }
    }
}

impl FromKind for Bandwidths {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::Bandwidths { limits } = kind else {
            return None;
        };
        let bucket = |(index, limit): (usize, &'_ Bandwidth)| {
            let bucket = limit.bucket().rule();
            let bucket = bucket.map_err(|unfit| unfit.under(Step::Index(index)))?;
            Ok((limit.id.clone(), bucket))
        };
        let buckets = limits.iter().enumerate().map(bucket);
        let buckets: Result<Vec<_>, Unfit> = buckets.collect();
        Some(match buckets {
            Ok(buckets) => {
                let buckets = buckets.iter().map(|(id, it)| (id.as_deref(), it.clone()));
                Self::try_new(buckets.collect::<Vec<_>>()).map_err(Unfit::from)
            }
            Err(unfit) => Err(unfit.under(Step::Key("limits"))),
        })
    }
}

impl FromKind for Smooth {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let rule = match kind {
            Kind::SmoothBursty { rate, max_burst } => Self::try_bursty(rate.0, (*max_burst).into()),
            Kind::SmoothWarmup {
                rate,
                warmup,
                cold_factor,
            } => Self::try_warm_up(rate.0, (*warmup).into(), cold_factor.0),
            _ => return None,
        };
        Some(rule.map_err(Unfit::from))
    }
}

impl FromKind for PenaltyBucket {
    fn of(kind: &Kind) -> Option<Result<Self, Unfit>> {
        let Kind::PenaltyBucket {
            burst,
            refill,
            every,
            initial,
            soft_limit,
            soft_window,
            lockout,
        } = kind
        else {
            return None;
        };
        let bucket = Bucket {
            burst: *burst,
            refill: *refill,
            every: *every,
            style: Style::Greedy,
            initial: *initial,
        };
        let rule = |bucket| {
            Self::new(bucket)
                .with_lockout(soft_limit.0, (*lockout).into())
                .with_soft_window((*soft_window).into())
        };
        Some(bucket.rule().map(rule))
    }
}

/// A bound that has been filled in.
const fn bound(bound: Option<Positive>) -> u32 {
    match bound {
        Some(bound) => bound.0,
        None => 1,
    }
}

/// The algorithm of an `adaptive` limit.
pub(crate) fn found_by(algorithm: &Algorithm) -> Result<Box<dyn Limit>, Unfit> {
    Ok(match algorithm {
        Algorithm::Aimd {
            min,
            initial,
            max,
            backoff,
            timeout,
        } => {
            let aimd = Aimd::builder().min(bound(*min)).initial(bound(*initial));
            let aimd = aimd.max(bound(*max)).backoff(backoff.0);
            Box::new(aimd.timeout((*timeout).into()).build()?)
        }
        Algorithm::Vegas {
            min,
            initial,
            max,
            smoothing,
            probe_multiplier,
            probe_jitter,
        } => {
            let vegas = Vegas::builder().min(bound(*min)).initial(bound(*initial));
            let vegas = vegas.max(bound(*max)).smoothing(smoothing.0);
            let vegas = vegas.probe_multiplier(probe_multiplier.0);
            let vegas = match probe_jitter {
                Some(jitter) => {
                    vegas.probe_jitter(jitter.iter().map(|it| it.0).collect::<Vec<_>>())
                }
                None => vegas,
            };
            Box::new(vegas.build()?)
        }
        Algorithm::Gradient2 {
            min,
            initial,
            max,
            smoothing,
            long_window,
            warmup,
            tolerance,
            queue_size,
        } => {
            let gradient = Gradient2::builder()
                .min(bound(*min))
                .initial(bound(*initial));
            let gradient = gradient.max(bound(*max)).smoothing(smoothing.0);
            let gradient = gradient.long_window(long_window.0).warmup(*warmup);
            let gradient = gradient.tolerance(tolerance.0).queue_size(*queue_size);
            Box::new(gradient.build()?)
        }
        Algorithm::Windowed {
            delegate,
            min_window,
            max_window,
            window_size,
            min_rtt,
            ..
        } => {
            let delegate = found_by(delegate);
            let delegate = delegate.map_err(|unfit| unfit.under(Step::Key("delegate")))?;
            let windowed = Windowed::builder(delegate).min_window((*min_window).into());
            let windowed = windowed.max_window((*max_window).into());
            let windowed = windowed.window_size(window_size.0);
            Box::new(windowed.min_rtt((*min_rtt).into()).build()?)
        }
        Algorithm::LatencyGradient {
            min,
            initial,
            max,
            tolerance,
            min_queue,
            initial_queue,
        } => {
            let gradient = LatencyGradient::builder().min(bound(*min));
            let gradient = gradient.initial(bound(*initial)).max(bound(*max));
            let gradient = gradient.tolerance(tolerance.0).min_queue(min_queue.0);
            Box::new(gradient.initial_queue(initial_queue.0).build()?)
        }
        Algorithm::Verdict { min, initial, max } => {
            let verdict = Verdict::builder().min(bound(*min)).initial(bound(*initial));
            Box::new(verdict.max(bound(*max)).build()?)
        }
    })
}
