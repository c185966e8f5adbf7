//! Rates: the fields of each kind, and the rule that is built from them.
//!
//! A new rate rule needs a struct and its [`Rate`] implementation here or in `buckets.rs`, and an entry in the tables
//! of [`Kind`](crate::Kind) and [`AnyRate`](crate::AnyRate). The compiler reports a missing entry.

use std::time::Duration;

use plimsoll::Quota;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::any_rate::RateRule;
use crate::invalid::InvalidSpec;
use crate::value::{Count, Number, Period, Positive, Span, span};

/// The fields of a rate, from which its rule is built. Each kind of rate has a struct that implements it.
///
/// ```
/// use plimsoll::Gate;
/// use plimsoll_spec::{Rate, TokenBucket, Units, document, read_one};
///
/// let root = document("{ burst: 5, refill: 100, every: 1m }", "a token bucket")?;
/// let bucket: TokenBucket = read_one(&root, Units::Required)?;
/// let gate = Gate::new(bucket.rule().unwrap());
/// assert!(gate.try_acquire(5).is_ok() && gate.try_acquire(1).is_err());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
pub trait Rate {
    /// The rule in `plimsoll`.
    type Rule: RateRule;

    /// Builds the rule.
    ///
    /// # Errors
    ///
    /// Returns an error that names the field of the description if the rule rejects a value.
    fn rule(&self) -> Result<Self::Rule, InvalidSpec>;

    /// Returns the field with the time in which the limit is replenished, and its value, if there is one such field.
    fn period(&self) -> Option<(&'static str, Period)> {
        None
    }
}

/// Checks a quota whose fields are called `units` and `period`.
pub(crate) fn quota(
    units: (&'static str, Positive),
    period: (&'static str, Period),
) -> Result<Quota, InvalidSpec> {
    Quota::try_new(units.1.0, period.1.into()).map_err(|invalid| {
        let field = match invalid.field() {
            "limit" => units.0,
            "period" => period.0,
            other => other,
        };
        InvalidSpec::of(field, invalid)
    })
}

/// A quota of `limit` for each `window`.
fn windowed(limit: Positive, window: Period) -> Result<Quota, InvalidSpec> {
    quota(("limit", limit), ("window", window))
}

/// An amount in each fixed window of time.
///
/// The rule is [`plimsoll::FixedWindow`]. Around the boundary of two windows up to twice the limit may pass; a
/// [`SlidingWindow`] or a [`TokenBucket`](crate::TokenBucket) has no such boundaries.
///
/// ```
/// use plimsoll::Gate;
/// use plimsoll_spec::{FixedWindow, Rate, Units, document, read_one};
///
/// let root = document("{ limit: 2, window: 1h }", "a fixed window")?;
/// let window: FixedWindow = read_one(&root, Units::Required)?;
/// let gate = Gate::new(window.rule().unwrap());
/// assert!(gate.try_acquire(2).is_ok() && gate.try_acquire(1).is_err());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct FixedWindow {
    /// The amount in a window.
    pub limit: Positive,
    /// The length of a window.
    pub window: Period,
    /// The start of windows: when the limiter is built, or at multiples since the epoch. In a store always since 1970.
    #[serde(default)]
    pub align: Align,
}

impl Rate for FixedWindow {
    type Rule = plimsoll::FixedWindow;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let rule = Self::Rule::new(windowed(self.limit, self.window)?);
        Ok(match self.align {
            Align::Start => rule,
            Align::Epoch => rule.aligned_to_epoch(),
        })
    }

    fn period(&self) -> Option<(&'static str, Period)> {
        Some(("window", self.window))
    }
}

/// An amount in a window that slides by segments.
///
/// The rule is [`plimsoll::SlidingWindow`]. Usage expires with its segment, so up to one segment before a whole window
/// has passed.
///
/// ```
/// use plimsoll_spec::{Rate, SlidingWindow, Units, document, read_one};
///
/// let root = document("{ limit: 1000, window: 1m, segments: 12 }", "a sliding window")?;
/// let window: SlidingWindow = read_one(&root, Units::Required)?;
/// assert_eq!(window.rule().unwrap().segments(), 12);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct SlidingWindow {
    /// The amount in a window.
    pub limit: Positive,
    /// The length of the window.
    pub window: Period,
    /// The number of segments.
    pub segments: Count,
}

impl Rate for SlidingWindow {
    type Rule = plimsoll::SlidingWindow;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let quota = windowed(self.limit, self.window)?;
        Ok(Self::Rule::try_new(quota, self.segments.0)?)
    }

    fn period(&self) -> Option<(&'static str, Period)> {
        Some(("window", self.window))
    }
}

/// An amount in any window, exactly: every grant is stored.
///
/// The rule is [`plimsoll::SlidingLog`]: exact, with 16 bytes for each grant in the window, so for small limits.
///
/// ```
/// use plimsoll::Gate;
/// use plimsoll_spec::{SlidingLog, Rate, Units, document, read_one};
///
/// let root = document("{ limit: 3, window: 10m, count_denied: true }", "a sliding log")?;
/// let log: SlidingLog = read_one(&root, Units::Required)?;
/// let gate = Gate::new(log.rule().unwrap());
/// assert!(gate.try_acquire(3).is_ok() && gate.try_acquire(1).is_err());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct SlidingLog {
    /// The amount in a window.
    pub limit: Positive,
    /// The length of the window.
    pub window: Period,
    /// The minimum time between two grants.
    #[serde(default = "span::<0>")]
    pub min_gap: Span,
    /// Whether refusals are recorded too.
    #[serde(default)]
    pub count_denied: bool,
}

impl Rate for SlidingLog {
    type Rule = plimsoll::SlidingLog;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let rule = Self::Rule::new(windowed(self.limit, self.window)?);
        let rule = rule.try_min_gap(self.min_gap.into())?;
        Ok(if self.count_denied {
            rule.counting_refusals()
        } else {
            rule
        })
    }

    fn period(&self) -> Option<(&'static str, Period)> {
        Some(("window", self.window))
    }
}

/// An amount in a sliding window, estimated from two counts.
///
/// The rule is [`plimsoll::SlidingCounter`], for very many keys: 32 bytes each, and an estimate that may admit nearly
/// twice the limit around a boundary.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct SlidingCounter {
    /// The amount in a window.
    pub limit: Positive,
    /// The length of the window.
    pub window: Period,
}

impl Rate for SlidingCounter {
    type Rule = plimsoll::SlidingCounter;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        Ok(Self::Rule::new(windowed(self.limit, self.window)?))
    }

    fn period(&self) -> Option<(&'static str, Period)> {
        Some(("window", self.window))
    }
}

/// An even rate; unused permits are saved, and can be used at once later.
///
/// The rule is [`plimsoll::Smooth`], as made by its `bursty`. A request may take more than is saved; the next one waits for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct SmoothBursty {
    /// Permits per second; may be a fraction.
    pub rate: Number,
    /// The time for which unused permits are saved.
    #[serde(default = "span::<1000>")]
    pub max_burst: Span,
}

impl Rate for SmoothBursty {
    type Rule = plimsoll::Smooth;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        Ok(Self::Rule::try_bursty(self.rate.0, self.max_burst.into())?)
    }
}

/// An even rate that is slower when cold.
///
/// The rule is [`plimsoll::Smooth`], as made by its `warm_up`: for servers with caches that must fill first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct SmoothWarmup {
    /// Permits per second; may be a fraction.
    pub rate: Number,
    /// The time that it takes to warm up.
    pub warmup: Span,
    /// The factor by which it is slower when cold.
    #[serde(default = "three")]
    pub cold_factor: Number,
}

const fn three() -> Number {
    Number(3.0)
}

impl Rate for SmoothWarmup {
    type Rule = plimsoll::Smooth;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let warmup = Duration::from(self.warmup);
        Ok(Self::Rule::try_warm_up(
            self.rate.0,
            warmup,
            self.cold_factor.0,
        )?)
    }
}

/// An amount in each cycle; reservations may reach into later cycles.
///
/// The rule is [`plimsoll::Refresh`]. A reservation takes from later cycles, as far ahead as `max_wait` allows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Refresh {
    /// The amount in a cycle.
    pub limit: Positive,
    /// The length of a cycle.
    pub period: Period,
    /// The longest time that a reservation may reach ahead.
    #[serde(default = "span::<0>")]
    pub max_wait: Span,
}

impl Rate for Refresh {
    type Rule = plimsoll::Refresh;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let quota = quota(("limit", self.limit), ("period", self.period))?;
        Ok(Self::Rule::new(quota).max_wait(self.max_wait.into()))
    }

    fn period(&self) -> Option<(&'static str, Period)> {
        Some(("period", self.period))
    }
}

/// The start of windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Align {
    /// When the limiter is built. In a store the same as `epoch`.
    #[default]
    Start,
    /// At multiples of the window since the epoch of the clock.
    Epoch,
}
