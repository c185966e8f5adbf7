//! Limiters as a file describes them.

use std::time::Duration;

use super::Algorithm;
use crate::tree::Place;

/// A limiter: its kind and what every kind may have.
#[derive(Debug)]
pub(crate) struct LimiterSpec {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) queue: Option<QueueSpec>,
    pub(crate) keyed: bool,
    pub(crate) max_keys: Option<u32>,
    pub(crate) name: Option<String>,
}

/// The kinds of the format, each with its own fields.
#[derive(Debug)]
pub(crate) enum Kind {
    FixedWindow {
        limit: u32,
        window: Duration,
        align: Align,
    },
    SlidingWindow {
        limit: u32,
        window: Duration,
        segments: u32,
    },
    SlidingLog {
        limit: u32,
        window: Duration,
        min_gap: Duration,
        count_denied: bool,
    },
    SlidingCounter {
        limit: u32,
        window: Duration,
    },
    TokenBucket(Bandwidth),
    Bandwidths(Vec<Bandwidth>),
    SmoothBursty {
        rate: f64,
        max_burst: Duration,
    },
    SmoothWarmup {
        rate: f64,
        warmup: Duration,
        cold_factor: f64,
    },
    Refresh {
        limit: u32,
        period: Duration,
        max_wait: Duration,
    },
    Concurrency {
        limit: u32,
    },
    Adaptive(Algorithm),
    PenaltyBucket {
        bucket: Bandwidth,
        soft_limit: u32,
        soft_window: Duration,
        lockout: Duration,
    },
    All(Vec<LimiterSpec>),
}

impl Kind {
    /// The word the format has for this kind.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::FixedWindow { .. } => "fixed_window",
            Self::SlidingWindow { .. } => "sliding_window",
            Self::SlidingLog { .. } => "sliding_log",
            Self::SlidingCounter { .. } => "sliding_counter",
            Self::TokenBucket(_) => "token_bucket",
            Self::Bandwidths(_) => "bandwidths",
            Self::SmoothBursty { .. } => "smooth_bursty",
            Self::SmoothWarmup { .. } => "smooth_warmup",
            Self::Refresh { .. } => "refresh",
            Self::Concurrency { .. } => "concurrency",
            Self::Adaptive(_) => "adaptive",
            Self::PenaltyBucket { .. } => "penalty_bucket",
            Self::All(_) => "all",
        }
    }
}

impl LimiterSpec {
    /// The names a refusal can carry: this limiter's and, for `all`, those of its members.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.name.as_deref().into_iter().collect();
        if let Kind::All(of) = &self.kind {
            names.extend(of.iter().flat_map(Self::names));
        }
        names
    }
}

/// The fields of a token bucket, which are also those of one of several bandwidths.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    pub(crate) burst: u32,
    pub(crate) refill: u32,
    pub(crate) every: Duration,
    pub(crate) style: Style,
    pub(crate) initial: Option<u32>,
    pub(crate) id: Option<String>,
}

/// Where the windows of a fixed window begin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Align {
    Start,
    Epoch,
}

/// How a bucket is refilled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Interval,
    Greedy,
}

/// The queue of a limiter.
#[derive(Debug)]
pub(crate) struct QueueSpec {
    pub(crate) bound: u32,
    pub(crate) order: Order,
    /// `None`: what the order has by default.
    pub(crate) full: Option<Full>,
    pub(crate) counts: Counts,
    pub(crate) timeout: Option<Duration>,
}

/// Who is served first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    Fifo,
    Lifo,
}

/// Who fails when the queue is full.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Full {
    Incoming,
    Oldest,
    Newest,
}

/// What is counted against the bound.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counts {
    Excess,
    Waiting,
}
