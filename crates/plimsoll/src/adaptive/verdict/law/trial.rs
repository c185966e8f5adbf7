//! What was seen before, to be compared with what comes of it.

use crate::adaptive::verdict::window::Seen;

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

/// A time in which the limit is in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    pub(super) began: f64,
    /// The limit then.
    pub(super) limit: f64,
    /// How much came through, and in what time.
    pub(super) done: f64,
    pub(super) time: f64,
}

impl Since {
    pub(super) const fn new(seen: &Seen, limit: f64) -> Self {
        Self {
            began: seen.opened,
            limit,
            done: 0.0,
            time: 0.0,
        }
    }

    pub(super) fn add(&mut self, seen: &Seen) {
        let time = seen.closed - seen.opened;
        self.done += seen.throughput * time;
        self.time += time;
    }
}
