use std::ops::{Add, AddAssign};

use serde::Serialize;

use crate::class::CLASSES;

/// Counts of requests by result. The sum of two counts is the sum of each field.
///
/// `offered` may exceed the sum of the others by the requests that have not ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Requests that arrived. Retries are not counted.
    pub offered: u64,
    /// Requests that were answered before the deadline.
    pub good: u64,
    /// Requests that were answered after the deadline.
    pub late: u64,
    /// Requests that were refused and not retried again.
    pub rejected: u64,
    /// Requests that were answered with an error and not retried again.
    pub failed: u64,
}

impl AddAssign for RequestCounts {
    fn add_assign(&mut self, other: Self) {
        self.offered += other.offered;
        self.good += other.good;
        self.late += other.late;
        self.rejected += other.rejected;
        self.failed += other.failed;
    }
}

impl Add for RequestCounts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// One second of a run: the counts of the second, and the state at its end.
#[derive(Clone, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Second {
    /// The requests that arrived, were answered or were refused in this second, by class: critical, normal, non-critical.
    pub classes: [RequestCounts; CLASSES.len()],
    /// The median latency of the requests answered in this second, from arrival to answer, in milliseconds. `None` if none were.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of their latency, in milliseconds.
    pub p99_ms: Option<f64>,
    /// The limit at the end of the second. `None` without a limit. With several processes it is the sum of their limits.
    pub limit: Option<u64>,
    /// The number of requests in the server at the end of the second.
    pub in_flight: u32,
    /// The number of requests that wait at the gate at the end of the second.
    pub waiting: u32,
    /// The number of requests that a perfect limiter would have answered before the deadline.
    pub ideal: f64,
}

impl Second {
    /// The counts of all classes together.
    #[must_use]
    pub fn counts(&self) -> RequestCounts {
        self.classes
            .iter()
            .copied()
            .fold(RequestCounts::default(), RequestCounts::add)
    }
}
