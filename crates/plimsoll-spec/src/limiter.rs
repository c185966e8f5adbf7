//! Limiters as a file describes them, in the words of scenario files. What is said here of fields is what editors show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Algorithm, Borrow, Memory, Name, Outage, Percent, Period, Positive, Rate, Span, millis,
    positive,
};

/// A limiter: what every kind may have, and its kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename = "split")]
pub(crate) struct Limiter {
    pub(crate) common: Common,
    pub(crate) kind: Kind,
}

/// What every kind may have.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a limiter: a map with a `kind`")]
pub(crate) struct Common {
    /// Lets callers wait. Without a queue nobody waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<Queue>,
    /// One state for each key, such as a tenant or an address.
    #[serde(default)]
    pub(crate) keyed: bool,
    /// Keeps at most so many keys: a million, or 10000 for `penalty_bucket`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_keys: Option<Positive>,
    /// The name that refusals and metrics carry, and by which a store knows it; the name of its entry unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The store that keeps its states, for all processes together; in the memory of this one unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<Name>,
    /// What is answered while its store cannot decide: `admit`, `deny` or { local: 0.25 }; `deny` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outage: Option<Outage>,
    /// Takes from the store in batches, so that most decisions need no round trip. For rates only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) borrow: Option<Borrow>,
}

/// The kinds, each with its own fields.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(tag = "kind")]
pub(crate) enum Kind {
    /// So many in each window of time.
    FixedWindow {
        /// How many in a window.
        limit: Positive,
        /// How long a window is.
        window: Period,
        /// Where windows begin: when the limiter is built, or at multiples since the epoch; in a store since 1970 always.
        #[serde(default)]
        align: Align,
    },
    /// So many in a window that slides by segments.
    SlidingWindow {
        /// How many in a window.
        limit: Positive,
        /// How long the window is.
        window: Period,
        /// Into how many segments it is divided.
        segments: Positive,
    },
    /// So many in any window, exactly: every grant is remembered.
    SlidingLog {
        /// How many in a window.
        limit: Positive,
        /// How long the window is.
        window: Period,
        /// The least time between two.
        #[serde(default = "zero")]
        min_gap: Span,
        /// Whether refusals are recorded too.
        #[serde(default)]
        count_denied: bool,
    },
    /// So many in a window, estimated from two counts.
    SlidingCounter {
        /// How many in a window.
        limit: Positive,
        /// How long the window is.
        window: Period,
    },
    /// Tokens that come back with time, and may be saved up to a burst.
    TokenBucket(Bucket),
    /// Several token buckets at once.
    Bandwidths {
        /// The buckets.
        limits: Vec<Bandwidth>,
    },
    /// So many a second, evenly; what was not used may be used later at once.
    SmoothBursty {
        /// How many a second; may be a fraction.
        rate: Rate,
        /// For how long unused permits are saved.
        #[serde(default = "a_second")]
        max_burst: Span,
    },
    /// So many a second, evenly; slower at first.
    SmoothWarmup {
        /// How many a second; may be a fraction.
        rate: Rate,
        /// How long it takes to get warm.
        warmup: Span,
        /// How many times slower it is when cold.
        #[serde(default = "three")]
        cold_factor: Rate,
    },
    /// So many in each cycle; reservations may reach into later ones.
    Refresh {
        /// How many in a cycle.
        limit: Positive,
        /// How long a cycle is.
        period: Period,
        /// How far a reservation may reach.
        #[serde(default = "zero")]
        max_wait: Span,
    },
    /// So many at the same time.
    Concurrency {
        /// How many at the same time.
        limit: Positive,
        /// In a store: how long a permit outlives a process that crashed; 30 seconds unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Period>,
    },
    /// As many at the same time as an algorithm finds right.
    Adaptive(Algorithm),
    /// A token bucket that turns repeated refusals into a lockout.
    PenaltyBucket {
        /// The most tokens.
        burst: Positive,
        /// How many tokens come back.
        refill: Positive,
        /// In what time they come back.
        #[serde(default = "millis::<1000>")]
        every: Period,
        /// Tokens at first: the burst unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<u32>,
        /// So many refusals lock out.
        #[serde(default = "positive::<3>")]
        soft_limit: Positive,
        /// Refusals further apart than this do not add up.
        #[serde(default = "five_seconds")]
        soft_window: Span,
        /// For how long; 0 never locks out.
        #[serde(default = "zero")]
        lockout: Span,
    },
    /// Several limiters that must all grant: all or none. Those in memory are asked first, then each of those in stores.
    All {
        /// The limiters, by name or described here.
        of: Vec<Member>,
    },
    /// Yes while there is memory: saturated from the hard limit less the spike on.
    Memory {
        /// The most memory that should ever be in use.
        hard_limit: Memory,
        /// What may come in between two samples: a fifth of the hard limit unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spike: Option<Memory>,
        /// How often memory is measured.
        #[serde(default = "millis::<1000>")]
        check_interval: Period,
    },
    /// Yes while the processor has time.
    Cpu {
        /// Saturated from here on.
        threshold: Percent,
        /// The time constant of the average; 0 for none.
        #[serde(default = "five_seconds")]
        smoothing: Span,
        /// How often it is measured.
        #[serde(default = "millis::<1000>")]
        check_interval: Period,
    },
}

/// A token bucket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a bandwidth")]
pub(crate) struct Bucket {
    /// The most tokens.
    pub(crate) burst: Positive,
    /// How many tokens come back.
    pub(crate) refill: Positive,
    /// In what time they come back.
    pub(crate) every: Period,
    /// One by one, or all at the end of the time.
    #[serde(default)]
    pub(crate) style: Style,
    /// Tokens at first: the burst unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) initial: Option<u32>,
}

/// One of several token buckets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a bandwidth")]
pub(crate) struct Bandwidth {
    /// By which it is known when the limits change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The most tokens.
    pub(crate) burst: Positive,
    /// How many tokens come back.
    pub(crate) refill: Positive,
    /// In what time they come back.
    pub(crate) every: Period,
    /// One by one, or all at the end of the time.
    #[serde(default)]
    pub(crate) style: Style,
    /// Tokens at first: the burst unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) initial: Option<u32>,
}

/// A member of `all`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Member", untagged)]
pub(crate) enum Member {
    /// The name of a limiter.
    Name(Name),
    /// A limiter of its own.
    Inline(Box<Limiter>),
}

/// Where windows begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Align {
    /// When the limiter is built. In a store the same as `epoch`.
    #[default]
    Start,
    /// At multiples of the window since the epoch of the clock.
    Epoch,
}

/// How a bucket is refilled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// One by one, evenly over the time.
    #[default]
    Greedy,
    /// All tokens at the end of the time.
    Interval,
}

/// Who may wait.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a queue such as { bound: 10 }")]
pub(crate) struct Queue {
    /// How much may wait.
    pub(crate) bound: u32,
    /// Who is served first: who came first, or who came last.
    #[serde(default)]
    pub(crate) order: Order,
    /// Who fails when it is full: `incoming` in a fifo queue and `oldest` in a lifo one, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) full: Option<Full>,
    /// What is compared with the bound: what is in use beyond the limit, or only what waits.
    #[serde(default)]
    pub(crate) counts: Counts,
    /// How long anybody waits at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Span>,
}

/// Who is served first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Who came first.
    #[default]
    Fifo,
    /// Who came last.
    Lifo,
}

/// Who fails when a queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Full {
    /// The newcomer.
    Incoming,
    /// Who has waited longest.
    Oldest,
    /// Who came last.
    Newest,
}

/// What is compared with the bound of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Counts {
    /// What is in use beyond the limit.
    #[default]
    Excess,
    /// Only what waits.
    Waiting,
}

const fn zero() -> Span {
    Span(0)
}

const fn a_second() -> Span {
    Span(1_000_000_000)
}

const fn five_seconds() -> Span {
    Span(5_000_000_000)
}

const fn three() -> Rate {
    Rate(3.0)
}
