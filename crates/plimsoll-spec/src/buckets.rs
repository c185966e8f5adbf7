//! Rates that are token buckets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::invalid::InvalidSpec;
use crate::path::Step;
use crate::rates::{Rate, quota};
use crate::value::{Count, Period, Positive, Span, count, millis, span};

/// Tokens that are refilled with time, up to a burst.
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
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Bandwidths {
    /// The buckets.
    pub limits: Vec<Bandwidth>,
}

impl Bandwidths {
    /// These buckets.
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
    /// The bucket by itself.
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
