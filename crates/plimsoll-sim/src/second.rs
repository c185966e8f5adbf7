use std::ops::{Add, AddAssign};

use serde::Serialize;

use crate::class::CLASSES;

/// What became of requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Came, retries not counted.
    pub offered: u64,
    /// Were answered in time.
    pub good: u64,
    /// Were answered too late.
    pub late: u64,
    /// Were refused for good.
    pub rejected: u64,
    /// Were answered with an error.
    pub failed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.offered += other.offered;
        self.good += other.good;
        self.late += other.late;
        self.rejected += other.rejected;
        self.failed += other.failed;
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// One second of a run.
#[derive(Clone, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Second {
    /// What came, was answered and was refused in it, by class: critical, normal, non-critical.
    pub classes: [Counts; CLASSES.len()],
    /// The median latency of what was answered in it, from arrival to answer, in milliseconds.
    pub p50_ms: Option<f64>,
    /// Its 99th percentile.
    pub p99_ms: Option<f64>,
    /// The limit at its end; `None` without a limit.
    pub limit: Option<u64>,
    /// How much was in the server at its end.
    pub in_flight: u32,
    /// How many waited at the gate at its end.
    pub waiting: u32,
    /// What a perfect limiter would have had answered in time, of what came.
    pub ideal: f64,
}

impl Second {
    /// Of all classes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.classes
            .iter()
            .copied()
            .fold(Counts::default(), Counts::add)
    }
}
