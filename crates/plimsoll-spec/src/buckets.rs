//! Rates that are token buckets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::invalid::InvalidSpec;
use crate::path::Step;
use crate::rates::{Rate, quota};
use crate::value::{Count, Period, Positive, Span, count, millis, span};

/// Tokens that are refilled with time, up to a burst.
///
/// The rule is [`plimsoll::TokenBucket`]. The short form `rate: 100/s` describes one too: see [`long_form`](crate::long_form).
///
/// ```
/// use plimsoll_spec::{Rate, Style, TokenBucket, Units, document, read_one};
///
/// let root = document("{ burst: 20, refill: 100, every: 1s }", "a token bucket")?;
/// let bucket: TokenBucket = read_one(&root, Units::Required)?;
/// assert_eq!((bucket.style, bucket.initial), (Style::Greedy, None));
/// assert!(bucket.rule().is_ok());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct TokenBucket {
    /// The capacity in tokens.
    pub burst: Positive,
    /// The number of tokens that are refilled.
    pub refill: Positive,
    /// The time in which they are refilled.
    pub every: Period,
    /// Refilled one by one, or all at the end of the time.
    #[serde(default)]
    pub style: Style,
    /// The initial tokens: the burst unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<u64>,
}

impl Rate for TokenBucket {
    type Rule = plimsoll::TokenBucket;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let quota = quota(("refill", self.refill), ("every", self.every))?;
        let rule = match self.style {
            Style::Interval => Self::Rule::interval(quota),
            Style::Greedy => Self::Rule::greedy(quota),
        };
        let rule = rule.try_burst(self.burst.0)?;
        Ok(rule.try_initial(self.initial.unwrap_or(self.burst.0))?)
    }

    fn period(&self) -> Option<(&'static str, Period)> {
        Some(("every", self.every))
    }
}

/// Several token buckets at once.
///
/// The rule is [`plimsoll::Bandwidths`]: a cost is taken from all buckets or from none.
///
/// ```
/// use plimsoll::Gate;
/// use plimsoll_spec::{Bandwidths, Rate, Units, document, read_one};
///
/// let text = "{ limits: [{ burst: 2, refill: 2, every: 1s }, { burst: 3, refill: 3, every: 1h }] }";
/// let bandwidths: Bandwidths = read_one(&document(text, "bandwidths")?, Units::Required)?;
/// let gate = Gate::new(bandwidths.rule().unwrap());
/// assert!(gate.try_acquire(2).is_ok() && gate.try_acquire(1).is_err());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Bandwidths {
    /// The buckets.
    pub limits: Vec<Bandwidth>,
}

impl Bandwidths {
    /// Creates a description of these buckets.
    #[must_use]
    pub const fn new(limits: Vec<Bandwidth>) -> Self {
        Self { limits }
    }
}

impl Rate for Bandwidths {
    type Rule = plimsoll::Bandwidths;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let mut buckets = Vec::new();
        for (index, limit) in self.limits.iter().enumerate() {
            let rule = limit.bucket().rule().map_err(|invalid| {
                let item = invalid.under(Step::Index(index));
                item.under(Step::Key("limits"))
            })?;
            buckets.push((limit.id.as_deref(), rule));
        }
        Ok(Self::Rule::try_named(buckets)?)
    }
}

/// One of several token buckets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a bandwidth")]
#[non_exhaustive]
pub struct Bandwidth {
    /// The name by which it keeps its state when the limits change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The capacity in tokens.
    pub burst: Positive,
    /// The number of tokens that are refilled.
    pub refill: Positive,
    /// The time in which they are refilled.
    pub every: Period,
    /// Refilled one by one, or all at the end of the time.
    #[serde(default)]
    pub style: Style,
    /// The initial tokens: the burst unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<u64>,
}

impl Bandwidth {
    /// Returns the bucket by itself.
    #[must_use]
    pub fn bucket(&self) -> TokenBucket {
        TokenBucket {
            burst: self.burst,
            refill: self.refill,
            every: self.every,
            style: self.style,
            initial: self.initial,
        }
    }
}

/// A token bucket that turns repeated refusals into a lockout.
///
/// The rule is [`plimsoll::PenaltyBucket`]. A grant resets the count of refusals, and refusals during a lockout do not extend it.
///
/// ```
/// use plimsoll::Gate;
/// use plimsoll_spec::{PenaltyBucket, Rate, Units, document, read_one};
///
/// let text = "{ burst: 1, refill: 1, soft_limit: 2, lockout: 1m }";
/// let bucket: PenaltyBucket = read_one(&document(text, "a penalty bucket")?, Units::Required)?;
/// let gate = Gate::new(bucket.rule().unwrap());
/// assert!(gate.try_acquire(1).is_ok() && gate.try_acquire(1).is_err() && gate.try_acquire(1).is_err());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct PenaltyBucket {
    /// The capacity in tokens.
    pub burst: Positive,
    /// The number of tokens that are refilled.
    pub refill: Positive,
    /// The time in which they are refilled.
    #[serde(default = "millis::<1000>")]
    pub every: Period,
    /// The initial tokens: the burst unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<u64>,
    /// The number of refusals that start a lockout.
    #[serde(default = "count::<3>")]
    pub soft_limit: Count,
    /// The longest time between two refusals that count together.
    #[serde(default = "span::<5000>")]
    pub soft_window: Span,
    /// The length of a lockout; 0 for none.
    #[serde(default = "span::<0>")]
    pub lockout: Span,
}

impl Rate for PenaltyBucket {
    type Rule = plimsoll::PenaltyBucket;

    fn rule(&self) -> Result<Self::Rule, InvalidSpec> {
        let bucket = TokenBucket {
            burst: self.burst,
            refill: self.refill,
            every: self.every,
            style: Style::Greedy,
            initial: self.initial,
        };
        let rule = Self::Rule::new(bucket.rule()?);
        let rule = rule.try_lockout(self.soft_limit.0, self.lockout.into())?;
        Ok(rule.soft_window(self.soft_window.into()))
    }

    fn period(&self) -> Option<(&'static str, Period)> {
        Some(("every", self.every))
    }
}

/// The refill style of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Style {
    /// One by one, evenly over the time.
    #[default]
    Greedy,
    /// All tokens at the end of the time.
    Interval,
}
