//! Steps: an action on a limiter, and its expected results.

use std::time::Duration;

use plimsoll::{Carry, Priority};
use plimsoll_spec::{Kind, Memory, Place};

/// One step, with its time already absolute.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) place: Place,
    /// Virtual time in nanoseconds.
    pub(crate) at: u64,
    pub(crate) key: Option<String>,
    pub(crate) verb: Option<Verb>,
    /// The name (`as`) of the result of the verb.
    pub(crate) name: Option<String>,
    pub(crate) expect: Option<Expect>,
    pub(crate) gauges: Vec<(Gauge, u64)>,
    pub(crate) saturation: Option<f64>,
    pub(crate) settled: Vec<(String, Settled)>,
    /// The words of all events since the last step with `events`.
    pub(crate) events: Option<Vec<&'static str>>,
}

/// The action of a step.
#[derive(Debug)]
pub(crate) enum Verb {
    Try(Ask),
    Acquire(Ask),
    Reserve(Ask),
    Estimate(Ask),
    TakeUpTo(u64),
    Release(String),
    Split {
        name: String,
        cost: u64,
        part: String,
    },
    Merge {
        name: String,
        other: String,
    },
    ForgetPermit(String),
    Cancel(String),
    Add(u64),
    Reset,
    SetRate(f64),
    Resize(u64),
    SetQueueBound(u64),
    Replace {
        /// The new bandwidths.
        by: Kind,
        carry: Carry,
    },
    Forget(String),
    /// Sets the usage of the machine, and measures it.
    Sample(Memory),
    Close,
}

/// A demand to the limiter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) cost: u64,
    pub(crate) priority: Priority,
    /// `timeout` of an acquire, `max_wait` of a reserve.
    pub(crate) within: Option<Duration>,
}

/// The expected answer of a verb. `None` is not checked.
#[derive(Debug, Default)]
pub(crate) struct Expect {
    pub(crate) result: Option<Outcome>,
    pub(crate) reason: Option<&'static str>,
    pub(crate) retry_after: Option<Hint>,
    pub(crate) wait: Option<Duration>,
    pub(crate) taken: Option<u64>,
    /// The expected credit of a `penalty_bucket`.
    pub(crate) credit: Option<u64>,
    pub(crate) refused_by: Option<String>,
    /// Tolerance of `retry_after` and `wait`.
    pub(crate) within: Duration,
    /// `retry_after` may be later by the tolerance, never earlier.
    pub(crate) sufficient: bool,
}

/// The expected `retry_after`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hint {
    None,
    After(Duration),
}

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Denied,
    Pending,
    Cancelled,
}

impl Outcome {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Denied => "denied",
            Self::Pending => "pending",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The expected state of an earlier request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled {
    pub(crate) result: Outcome,
    pub(crate) reason: Option<&'static str>,
}

/// The whole numbers of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gauge {
    Available,
    Queued,
    Waiters,
    InUse,
    Limit,
    GrantedTotal,
    DeniedTotal,
    EvictedTotal,
    CancelledTotal,
}

impl Gauge {
    pub(crate) fn word(self) -> &'static str {
        let row = Self::EVERY.iter().find(|(_, gauge)| *gauge == self);
        row.map_or("", |(word, _)| word)
    }

    /// Whether the number is a running total rather than a present value.
    pub(crate) const fn is_total(self) -> bool {
        matches!(
            self,
            Self::GrantedTotal | Self::DeniedTotal | Self::EvictedTotal | Self::CancelledTotal
        )
    }

    pub(crate) const EVERY: [(&'static str, Self); 9] = [
        ("available", Self::Available),
        ("queued", Self::Queued),
        ("waiters", Self::Waiters),
        ("in_use", Self::InUse),
        ("limit", Self::Limit),
        ("granted_total", Self::GrantedTotal),
        ("denied_total", Self::DeniedTotal),
        ("evicted_total", Self::EvictedTotal),
        ("cancelled_total", Self::CancelledTotal),
    ];
}
