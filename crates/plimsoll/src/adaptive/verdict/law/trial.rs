//! A measurement, to be compared with a later one.

/// A measurement before a step, to be compared with one after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) limit: f64,
    pub(super) throughput: f64,
    pub(super) latency: f64,
    pub(super) count: f64,
}

impl Trial {
    /// A value that any measurement improves on.
    pub(super) const NONE: Self = Self {
        limit: 0.0,
        throughput: 0.0,
        latency: f64::INFINITY,
        count: 0.0,
    };
}
