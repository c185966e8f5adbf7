//! Limiters. Editors show the documentation of the fields.

use plimsoll::adaptive::Adaptive;
use plimsoll::{Concurrency, Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;
use crate::any_rate::{AnyRate, RateRule};
use crate::buckets::{Bandwidths, PenaltyBucket, TokenBucket};
use crate::described::{AdaptiveRule, DescribedLimit};
use crate::invalid::InvalidSpec;
use crate::metadata::Metadata;
use crate::partitions::Partitions;
use crate::policies::Policies;
use crate::queue::Queue;
use crate::rates::{
    Align, FixedWindow, Rate, Refresh, SlidingCounter, SlidingLog, SlidingWindow, SmoothBursty,
    SmoothWarmup,
};
use crate::store::{Always, Borrow, Outage};
use crate::value::{Memory, Name, Percent, Period, Positive, Span, millis, span};

/// A limiter: the fields that every kind may have, and its kind. Both are read from one map.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename = "split")]
#[non_exhaustive]
pub struct Limiter {
    /// The fields that every kind may have.
    pub common: Common,
    /// The kind, with its own fields.
    pub kind: Kind,
}

/// The fields that every kind may have.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a limiter: a map with a `kind`")]
#[non_exhaustive]
pub struct Common {
    /// Lets callers wait. Without a queue they are refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// One state for each key, such as a tenant or an address.
    #[serde(default)]
    pub keyed: bool,
    /// The largest number of keys: a million, or 10000 for `penalty_bucket`, `adaptive` and `policies`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_keys: Option<Positive>,
    /// The name in refusals and metrics, and in a store; the name of its entry unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Metadata that its refusals and grants carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// The store of its states, which all processes share; in the memory of this process unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Name>,
    /// The answer while its store cannot decide: `admit`, `deny` or { local: 0.25 }; `deny` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<Outage>,
    /// Takes from the store in batches, so that most decisions need no round trip. For rates only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow: Option<Borrow>,
}

impl Common {
    /// Removes the store and the fields that need one: the limiter then has its states in the memory of this process.
    pub fn forget_store(&mut self) {
        (self.store, self.outage, self.borrow) = (None, None, None);
    }
}

/// Declares [`Kind`]: the rates, each with its word and the struct of its fields, and the other kinds. Everything that
/// depends on the rate of a kind uses the matches generated here, so a missing rate does not compile.
macro_rules! kinds {
    (
        rates { $($(#[$rate_doc:meta])* $rate:ident = $rate_word:literal,)+ }
        others { $($(#[$doc:meta])* $name:ident $fields:tt = $word:literal,)+ }
    ) => {
        /// The kinds, each with its own fields.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename = "kind", deny_unknown_fields)]
        #[schemars(tag = "kind")]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$rate_doc])* #[serde(rename = $rate_word)] $rate($rate),)+
            $($(#[$doc])* #[serde(rename = $word)] $name $fields,)+
        }

        impl Kind {
            /// Returns the word for this kind in files.
            #[must_use]
            pub const fn word(&self) -> &'static str {
                match self {
                    $(Self::$rate(_) => $rate_word,)+
                    $(Self::$name { .. } => $word,)+
                }
            }

            /// Builds the rule and passes it to `with`, which is generic over the type of the rule. `None` for `all`,
            /// `memory`, `cpu`, `partitions` and `policies`, which have no rule of their own.
            ///
            /// # Errors
            ///
            /// Returns an error that names the field if the rule rejects a value.
            pub fn with_rule<W: WithRule>(&self, with: W) -> Result<Option<W::Out>, InvalidSpec> {
                Ok(Some(match self {
                    $(Self::$rate(rate) => with.rate(rate.rule()?),)+
                    Self::Concurrency { limit, .. } => {
                        with.concurrency(Concurrency::try_new(limit.0)?)
                    }
                    Self::Adaptive(algorithm) => {
                        with.adaptive(Adaptive::new(DescribedLimit::new(algorithm)?))
                    }
                    Self::All { .. } | Self::Memory { .. } | Self::Cpu { .. } => return Ok(None),
                    Self::Partitions(_) | Self::Policies(_) => return Ok(None),
                }))
            }

            /// Builds the rule of a rate as an [`AnyRate`], which any rate can replace. `None` for kinds that are not rates.
            ///
            /// # Errors
            ///
            /// Returns an error that names the field if the rule rejects a value.
            #[must_use]
            pub fn any_rate(&self) -> Option<Result<AnyRate, InvalidSpec>> {
                match self {
                    $(Self::$rate(rate) => Some(rate.rule().map(RateRule::into_any)),)+
                    _ => None,
                }
            }

            /// Returns whether it is a rate: time replenishes it, and permits are not returned to it.
            #[must_use]
            pub const fn is_rate(&self) -> bool {
                matches!(self, $(Self::$rate(_))|+)
            }

            /// Returns the field with the refill time of a rate, and its value, if there is exactly one such field.
            #[must_use]
            pub fn period(&self) -> Option<(&'static str, Period)> {
                match self {
                    $(Self::$rate(rate) => rate.period(),)+
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    rates {
        /// An amount in each fixed window of time.
        FixedWindow = "fixed_window",
        /// An amount in a window that slides by segments.
        SlidingWindow = "sliding_window",
        /// An amount in any window, exactly: every grant is stored.
        SlidingLog = "sliding_log",
        /// An amount in a sliding window, estimated from two counts.
        SlidingCounter = "sliding_counter",
        /// Tokens that are refilled with time, up to a burst.
        TokenBucket = "token_bucket",
        /// Several token buckets at once.
        Bandwidths = "bandwidths",
        /// An even rate; unused permits are saved, and can be used at once later.
        SmoothBursty = "smooth_bursty",
        /// An even rate that is slower when cold.
        SmoothWarmup = "smooth_warmup",
        /// An amount in each cycle; reservations may reach into later cycles.
        Refresh = "refresh",
        /// A token bucket that turns repeated refusals into a lockout.
        PenaltyBucket = "penalty_bucket",
    }
    others {
        /// A fixed number in flight.
        Concurrency {
            /// The number in flight.
            limit: Positive,
            /// In a store: the time for which a permit outlives a process that crashed; 30 seconds unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            lease: Option<Period>,
        } = "concurrency",
        /// A number in flight that an algorithm finds.
        Adaptive(Algorithm) = "adaptive",
        /// Shares of one limit, by weight. The key of a request is the name of its share.
        Partitions(Box<Partitions>) = "partitions",
        /// A rate and a burst for each operation and each of its callers. The key of a request is an operation and its caller.
        Policies(Box<Policies>) = "policies",
        /// Several limiters that must all grant: all or none. Limiters in memory are asked first, then each one in a store.
        All {
            /// The limiters, by name or described here.
            of: Vec<Member>,
        } = "all",
        /// Admits while memory is available: saturated from the hard limit minus the spike.
        Memory {
            /// The hard limit of memory in use.
            hard_limit: Memory,
            /// The memory that may be allocated between two samples: a fifth of the hard limit unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            spike: Option<Memory>,
            /// The interval of measurements.
            #[serde(default = "millis::<1000>")]
            check_interval: Period,
        } = "memory",
        /// Admits while processor time is available.
        Cpu {
            /// The load from which it is saturated.
            threshold: Percent,
            /// The time constant of the average; 0 for none.
            #[serde(default = "span::<5000>")]
            smoothing: Span,
            /// The interval of measurements.
            #[serde(default = "millis::<1000>")]
            check_interval: Period,
        } = "cpu",
    }
}

/// A member of `all`.
// Exhaustive: code that builds limiters must handle every form. Not a doc comment, because those are in the schema.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Member", untagged)]
pub enum Member {
    /// The name of a limiter.
    Name(Name),
    /// A limiter of its own.
    Inline(Box<Limiter>),
}

/// A function that is generic over the rule of a kind, for [`Kind::with_rule`].
///
/// ```
/// use plimsoll::{Concurrency, Rule};
/// use plimsoll_spec::{AdaptiveRule, Limiter, RateRule, Units, WithRule, document, read_one};
///
/// struct Limit;
/// impl WithRule for Limit {
///     type Out = u64;
///     fn rate<R: RateRule>(self, rule: R) -> u64 { rule.limit() }
///     fn concurrency(self, rule: Concurrency) -> u64 { rule.limit() }
///     fn adaptive(self, rule: AdaptiveRule) -> u64 { rule.limit() }
/// }
/// let root = document("{ kind: fixed_window, limit: 60, window: 1m }", "a limiter")?;
/// let limiter: Limiter = read_one(&root, Units::Required)?;
/// assert_eq!(limiter.kind.with_rule(Limit).unwrap(), Some(60));
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
pub trait WithRule {
    /// The result of the function.
    type Out;

    /// Called with the rule of a rate, which [`RateRule::into_any`] converts to an [`AnyRate`].
    fn rate<R: RateRule>(self, rule: R) -> Self::Out;
    /// Called with the rule of `concurrency`.
    fn concurrency(self, rule: Concurrency) -> Self::Out;
    /// Called with the rule of `adaptive`.
    fn adaptive(self, rule: AdaptiveRule) -> Self::Out;
}

/// The words of the kinds that a store can hold.
pub const STORABLE: [&str; 7] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "sliding_counter",
    "token_bucket",
    "bandwidths",
    "concurrency",
];

/// The default of `max_keys`.
const KEYS: u64 = 1_000_000;
/// The default of `max_keys` for kinds with large states.
const FEWER_KEYS: u64 = 10_000;
/// The default of `lease`.
const LEASE: Period = Period(30_000_000_000);

impl Common {
    /// Builds the metadata. `None` if the limiter has none.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Metadata::build`].
    pub fn about(&self) -> Result<Option<plimsoll::Metadata>, InvalidSpec> {
        self.metadata.as_ref().map(Metadata::build).transpose()
    }

    /// Checks the fields that every kind may have.
    ///
    /// # Errors
    ///
    /// Returns an error if the metadata is invalid.
    pub fn check(&self) -> Result<(), InvalidSpec> {
        self.metadata.as_ref().map_or(Ok(()), Metadata::check)
    }
}

impl Limiter {
    /// Fills in defaults that depend on other fields, so that a default compares equal to a field that is left out.
    pub fn fill(&mut self) {
        let penalty = matches!(self.kind, Kind::PenaltyBucket(_));
        let common = &mut self.common;
        common.keyed |= self.kind.is_by_key();
        let stored = common.store.is_some();
        let shares = matches!(self.kind, Kind::Partitions(_));
        if (common.keyed || penalty) && !stored && !shares {
            let fewer = penalty || matches!(self.kind, Kind::Adaptive(_) | Kind::Policies(_));
            let most = if fewer { FEWER_KEYS } else { KEYS };
            common.max_keys.get_or_insert(Positive(most));
        }
        if let Some(queue) = &mut common.queue {
            queue.fill();
        }
        if stored {
            common.outage.get_or_insert(Outage::Word(Always::Deny));
            if let Some(borrow) = &mut common.borrow {
                let twentieth = self.kind.most().unwrap_or_default() / 20;
                borrow.max.get_or_insert(Positive(twentieth.max(1)));
            }
        }
        match &mut self.kind {
            Kind::FixedWindow(window) if stored => window.align = Align::Epoch,
            Kind::Concurrency { lease, .. } if stored => {
                lease.get_or_insert(LEASE);
            }
            Kind::TokenBucket(bucket) => {
                bucket.initial.get_or_insert(bucket.burst.0);
            }
            Kind::PenaltyBucket(bucket) => {
                bucket.initial.get_or_insert(bucket.burst.0);
            }
            Kind::Bandwidths(buckets) => {
                for limit in &mut buckets.limits {
                    limit.initial.get_or_insert(limit.burst.0);
                }
            }
            Kind::Adaptive(algorithm) => algorithm.fill([None; 3]),
            Kind::Partitions(partitions) => {
                if let Some(algorithm) = &mut partitions.adaptive {
                    algorithm.fill([None; 3]);
                }
            }
            Kind::All { of } => {
                for member in of {
                    if let Member::Inline(limiter) = member {
                        limiter.fill();
                    }
                }
            }
            _ => {}
        }
    }
}

impl Kind {
    /// Returns the largest amount that is granted at once. `None` if the kind has no rule, or the rule rejects a value.
    #[must_use]
    pub fn most(&self) -> Option<u64> {
        self.with_rule(Most).ok().flatten()
    }

    /// Returns whether every request needs a key: true for `partitions` and `policies`.
    #[must_use]
    pub const fn is_by_key(&self) -> bool {
        matches!(self, Self::Partitions(_) | Self::Policies(_))
    }

    /// Checks the values of the kind by building its rule.
    ///
    /// # Errors
    ///
    /// Returns an error that names the field if the rule rejects a value.
    pub fn check(&self) -> Result<(), InvalidSpec> {
        match self {
            Self::Partitions(partitions) => partitions.rule().map(drop),
            Self::Policies(policies) => policies.by_key("", None, |builder| builder).map(drop),
            _ => self.with_rule(Most).map(drop),
        }
    }
}

/// The most that a rule grants at once.
struct Most;

impl WithRule for Most {
    type Out = u64;

    fn rate<R: RateRule>(self, rule: R) -> u64 {
        rule.limit()
    }

    fn concurrency(self, rule: Concurrency) -> u64 {
        rule.limit()
    }

    fn adaptive(self, rule: AdaptiveRule) -> u64 {
        rule.limit()
    }
}
