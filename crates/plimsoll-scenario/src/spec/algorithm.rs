//! Limits that move: the algorithms, and traces of samples that pin them.

use std::time::Duration;

use crate::tree::Place;

/// An algorithm and the range of its limit. What is `None` takes the algorithm's own default.
#[derive(Debug)]
pub(crate) struct Algorithm {
    pub(crate) place: Place,
    pub(crate) rule: LimitRule,
    pub(crate) range: Range,
    /// The fields that are there, and where their values stand.
    pub(crate) said: Vec<(String, Place)>,
}

/// Between what bounds a limit moves, and where it begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Range {
    pub(crate) min: Option<u32>,
    pub(crate) initial: Option<u32>,
    pub(crate) max: Option<u32>,
}

/// The algorithms of the format, each with its own parameters.
#[derive(Debug)]
pub(crate) enum LimitRule {
    Aimd {
        backoff: Option<f64>,
        timeout: Option<Duration>,
    },
    Vegas {
        smoothing: Option<f64>,
        probe_multiplier: Option<u32>,
        probe_jitter: Option<Vec<f64>>,
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
    LatencyGradient(LatencyGradient),
    Verdict,
}

/// The parameters of `latency_gradient`, whose traces look deeper into it than a limit shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatencyGradient {
    pub(crate) tolerance: Option<f64>,
    pub(crate) min_queue: Option<u32>,
    pub(crate) initial_queue: Option<u32>,
}

/// An algorithm and what it must say after each sample.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) limit: Algorithm,
    pub(crate) samples: Samples,
}

/// The two sorts of rows, each with the line it stands in.
#[derive(Debug)]
pub(crate) enum Samples {
    Plain(Vec<(usize, Sample)>),
    LatencyGradient(Vec<(usize, Tick)>),
}

/// One finished request, and the limit after it.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) in_flight: u32,
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
        in_flight: u32,
        queued: u32,
        limit_after: u64,
        queue_limit_after: u64,
        after: Finished,
        samples_after: u64,
    },
}

/// What `latency_gradient` remembers after a row, in whole milliseconds.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) avg: u64,
    pub(crate) min: u64,
}
