//! Partners: services that a program calls, and their limits.

use std::fmt;

use plimsoll::Quota;
use plimsoll_spec::{Period, Queue, read_rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::uses::{Spelled, spelled_as_text};

/// A partner: a service that this program calls, with a limit on the calls.
///
/// The limit is a known `rate`, or is learned from the refusals of the partner.
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let text = "
/// partners:
///   payments: { rate: 10/s, queue: { bound: 100 } }
///   maps: { learn: 10/s, min: 1/10s, max: 1000/s }
/// ";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let (name, maps) = config.partners().nth(1).unwrap();
/// assert_eq!((name, maps.learn.as_ref().unwrap().to_string()), ("maps", "10/s".to_owned()));
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a partner such as { rate: 10/s } or { learn: 10/s }"
)]
#[non_exhaustive]
pub struct PartnerSpec {
    /// The rate of calls, if the quota of the partner is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<CallRate>,
    /// The initial rate of calls, if the quota is unknown: it rises while the partner answers, and falls when it refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learn: Option<CallRate>,
    /// The minimum learned rate: 1/100 of `learn` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<CallRate>,
    /// The maximum learned rate; unbounded unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<CallRate>,
    /// Lets calls wait, also during pauses. Without a queue they are refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// The longest pause that an answer of the partner can cause: an hour unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pause: Option<Period>,
}

/// The rate of calls to a partner: `10/s`, `5000/hour`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRate {
    text: String,
    quota: Quota,
}

impl CallRate {
    /// Returns the rate as a quota.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Whether it is slower than another.
    pub(crate) fn is_below(&self, other: &Self) -> bool {
        let of =
            |one: &Self, two: &Self| u128::from(one.quota.units()) * two.quota.period().as_nanos();
        of(self, other) < of(other, self)
    }
}

impl Spelled for CallRate {
    const HARMLESS: &'static str = "text:1/s";
    const WANTED: &'static str = "a rate such as 10/s, 5000/hour or 0.5/s";

    fn parse(text: &str) -> Result<Self, String> {
        let (units, period) = read_rate(text)?;
        let quota = Quota::try_new(units, period).map_err(|_| String::new())?;
        let text = text.to_owned();
        Ok(Self { text, quota })
    }
}

impl fmt::Display for CallRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

spelled_as_text! {
    CallRate => {
        "description": "How often: 10/s, 5000/hour, 0.5/s.",
        "type": "string",
        "pattern": "^[0-9]+([.][0-9]+)?[kMG]?/[0-9]*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)$"
    }
}
