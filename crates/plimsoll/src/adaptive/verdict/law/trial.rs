//! What was seen before, to be compared with what comes of it.

/// Something that was tried, to be compared with what comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) limit: f64,
    pub(super) throughput: f64,
    pub(super) latency: f64,
    pub(super) count: f64,
}

impl Trial {
    /// Anything that is seen is better.
    pub(super) const NONE: Self = Self {
        limit: 0.0,
        throughput: 0.0,
        latency: f64::INFINITY,
        count: 0.0,
    };
}
