//! Traces: samples for a limit algorithm, and the limit after each.

use super::AlgorithmSpec;

/// An algorithm and its expected limit after each sample.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) limit: AlgorithmSpec,
    pub(crate) samples: Samples,
}

/// The two kinds of rows, each with its line in the file.
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

/// The state of `latency_gradient` after a row, in whole milliseconds.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) avg: u64,
    pub(crate) min: u64,
}
