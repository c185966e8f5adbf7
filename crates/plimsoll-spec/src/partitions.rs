//! Shares of one limit.

use plimsoll::adaptive::Adaptive;
use plimsoll::{Concurrency, InvalidLimit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;
use crate::described::{AdaptiveRule, DescribedLimit};
use crate::invalid::InvalidSpec;
use crate::named::Named;
use crate::path::Step;
use crate::value::{Count, Name, Period, Positive, millis};

/// One limit for several kinds of work, each with a share by weight.
///
/// The limit is that of [`rule`](Self::rule); a share that is not used is lent to the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Partitions {
    /// The number in flight, of all shares together; or use `adaptive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Positive>,
    /// The algorithm that finds the limit, instead of `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<Algorithm>,
    /// The weight of each share, by its name. The key of a request names its share.
    pub shares: Named<Count>,
    /// The share of requests whose key names none. They are refused unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Name>,
    /// The time after its last use for which a share is not lent to others.
    #[serde(default = "millis::<1000>")]
    pub lend_after: Period,
}

/// The limit that the shares of [`Partitions`] divide.
#[derive(Debug)]
#[non_exhaustive]
pub enum Shared {
    /// A fixed number in flight.
    Concurrency(Concurrency),
    /// A number in flight that an algorithm finds.
    Adaptive(Box<AdaptiveRule>),
}

impl Partitions {
    /// Builds the limit that the shares divide.
    ///
    /// ```
    /// use plimsoll_spec::{Partitions, Shared, Units, document, read_one};
    ///
    /// let root = document("{ limit: 10, shares: { live: 7, batch: 3 } }", "partitions")?;
    /// let partitions: Partitions = read_one(&root, Units::Required)?;
    /// assert!(matches!(partitions.rule(), Ok(Shared::Concurrency(_))));
    /// assert_eq!(partitions.weights().collect::<Vec<_>>(), [("live", 7), ("batch", 3)]);
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error unless exactly one of `limit` and `adaptive` is set, there is a share, and `others` names one.
    pub fn rule(&self) -> Result<Shared, InvalidSpec> {
        if self.shares.is_empty() {
            let rule = "at least one share such as { live: 7, batch: 3 }";
            return Err(InvalidLimit::new("shares", "none", rule).into());
        }
        if let Some(others) = &self.others
            && self.shares.get(&others.0).is_none()
        {
            let rule = "the name of a share";
            return Err(InvalidLimit::new("others", &others.0, rule).into());
        }
        match (self.limit, &self.adaptive) {
            (Some(limit), None) => Ok(Shared::Concurrency(Concurrency::try_new(limit.0)?)),
            (None, Some(algorithm)) => {
                let limit = DescribedLimit::new(algorithm);
                let limit = limit.map_err(|invalid| invalid.under(Step::Key("adaptive")))?;
                Ok(Shared::Adaptive(Box::new(Adaptive::new(limit))))
            }
            (Some(_), Some(_)) => {
                let rule = "`limit` or `adaptive`, not both";
                Err(InvalidLimit::new("adaptive", "both", rule).into())
            }
            (None, None) => {
                let rule = "`limit` or `adaptive`";
                Err(InvalidLimit::new("limit", "nothing", rule).into())
            }
        }
    }

    /// Returns the weights, by the names of the shares.
    pub fn weights(&self) -> impl Iterator<Item = (&str, u32)> {
        let shares = self.shares.iter();
        shares.map(|(name, weight)| (name, weight.0))
    }
}
