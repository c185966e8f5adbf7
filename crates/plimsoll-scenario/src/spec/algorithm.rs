//! Limits that move: the algorithms, and traces of samples that pin them.
//!
//! No algorithm exists yet; what a file says about them is read all the same, so that a mistake in it is found now.
#![expect(dead_code, reason = "read before the algorithms exist")]

use std::time::Duration;

/// An algorithm and the range of its limit. What is `None` takes the algorithm's own default.
#[derive(Debug)]
pub(crate) struct Algorithm {
    pub(crate) rule: LimitRule,
    pub(crate) min: Option<u32>,
    pub(crate) initial: Option<u32>,
    pub(crate) max: Option<u32>,
}

/// The algorithms of the format, each with its own parameters.
#[derive(Debug)]
pub(crate) enum LimitRule {
    Aimd {
        backoff: f64,
        timeout: Option<Duration>,
    },
    Vegas {
        smoothing: f64,
        probe_multiplier: u32,
        probe_jitter: Vec<f64>,
    },
    Gradient2 {
        smoothing: Option<f64>,
        long_window: Option<u32>,
        warmup: Option<u32>,
        tolerance: Option<f64>,
        queue_size: Option<u32>,
    },
    Windowed {
        delegate: Box<Algorithm>,
        min_window: Option<Duration>,
        max_window: Option<Duration>,
        window_size: Option<u32>,
        min_rtt: Option<Duration>,
    },
    LatencyGradient {
        tolerance: Option<f64>,
        min_queue: Option<u32>,
        initial_queue: Option<u32>,
    },
    Verdict,
}

impl LimitRule {
    /// The word the format has for this algorithm.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Aimd { .. } => "aimd",
            Self::Vegas { .. } => "vegas",
            Self::Gradient2 { .. } => "gradient2",
            Self::Windowed { .. } => "windowed",
            Self::LatencyGradient { .. } => "latency_gradient",
            Self::Verdict => "verdict",
        }
    }
}

/// An algorithm and what it must say after each sample.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) limit: Algorithm,
    pub(crate) samples: Samples,
}

/// The two sorts of rows.
#[derive(Debug)]
pub(crate) enum Samples {
    Plain(Vec<Sample>),
    LatencyGradient(Vec<Tick>),
}

/// One finished request, and the limit after it.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) start_ns: u64,
    pub(crate) rtt_ns: u64,
    pub(crate) in_flight: u64,
    pub(crate) dropped: bool,
    pub(crate) limit_after: u64,
}

/// A row of a `latency_gradient` trace: a finished request, or the tick every 500 ms.
#[derive(Debug)]
pub(crate) enum Tick {
    Sample {
        duration_ms: f64,
        after: Finished,
    },
    Tick {
        in_flight: u64,
        queued: u64,
        limit_after: u64,
        queue_limit_after: u64,
        after: Finished,
        samples_after: u64,
    },
}

/// What `latency_gradient` remembers after a row, in milliseconds.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) avg: f64,
    pub(crate) min: f64,
}
