use plimsoll_quota::max_min;
use serde::Serialize;

use super::model::{Fleet, FleetMetric};
use crate::num::{NANOS, index, seconds};
use crate::summary::fairness;

/// The outcome of one run of a [`Fleet`], with one seed and one number of processes.
///
/// Fractions are parts of 1. The limit holds if [`above`](Self::above) is at most [`bound`](Self::bound).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct FleetOutcome {
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of processes.
    pub processes: u32,
    /// The number of requests that arrived at all processes.
    pub demanded: u64,
    /// The number of requests that were admitted within the limit.
    pub admitted: u64,
    /// The number of requests that were admitted without the limit, by processes that could not reach the store or had no
    /// assignment.
    pub unlimited: u64,
    /// The number of requests that were admitted by assignments from before a restart of the server.
    pub stale: u64,
    /// The largest excess of admitted requests over the rate in any span of time, in requests.
    pub above: f64,
    /// The bound on [`above`](Self::above). For `assigned` it is the burst; for `borrowed`, the burst once for each start of the
    /// store and the most that all processes may have borrowed.
    pub bound: f64,
    /// The admitted requests, as a fraction of the requests that the limit and the demand allow.
    pub used: f64,
    /// [`used`](Self::used) while some processes were cut off. `None` without partitions.
    pub used_parted: Option<f64>,
    /// Jain's fairness index of the admitted requests of each process, relative to its fair part. 1 is perfectly fair. `None` if no
    /// request was admitted.
    pub fairness: Option<f64>,
    /// The smallest ratio of the admitted requests of a process to its fair part. Fair parts divide the admitted requests of all
    /// processes max-min fair by demand. `None` if no request was admitted.
    pub least: Option<f64>,
    /// The largest ratio of the admitted requests of a process to its fair part. `None` if no request was admitted.
    pub most: Option<f64>,
    /// The number of messages between the processes and the store or the server.
    pub messages: u64,
}

impl FleetOutcome {
    pub(super) fn metric(&self, metric: FleetMetric) -> Option<f64> {
        match metric {
            FleetMetric::Above => (self.bound > 0.0).then(|| self.above / self.bound),
            FleetMetric::Used => Some(self.used),
            FleetMetric::UsedParted => self.used_parted,
            FleetMetric::Fairness => self.fairness,
            FleetMetric::Least => self.least,
            FleetMetric::Most => self.most,
        }
    }
}

/// The counters of a running fleet.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) demanded: Vec<u64>,
    pub(super) admitted: Vec<u64>,
    pub(super) by_second: Vec<u64>,
    pub(super) unlimited: u64,
    pub(super) stale: u64,
    pub(super) above: f64,
    pub(super) bound: f64,
    pub(super) messages: u64,
}

impl Tally {
    /// Computes the outcome of the run.
    pub(super) fn outcome(&self, fleet: &Fleet, seed: u64, processes: u32) -> FleetOutcome {
        let used = |parted: bool| {
            let chosen = |second: &usize| !parted || fleet.is_parted(*second);
            let chosen = || (0..self.by_second.len()).filter(chosen);
            let had: u64 = chosen().map(|second| self.by_second[second]).sum();
            let possible: f64 = chosen().map(|second| fleet.possible(second)).sum();
            (possible > 0.0).then(|| had as f64 / possible)
        };
        let admitted: u64 = self.admitted.iter().sum();
        let wants: Vec<(u64, u32)> = self.demanded.iter().map(|want| (*want, 1)).collect();
        let fair = max_min(&wants, admitted);
        let parts = self.admitted.iter().zip(&fair);
        let parts = parts.filter(|(_, fair)| **fair > 0);
        let parts: Vec<f64> = parts
            .map(|(had, fair)| *had as f64 / *fair as f64)
            .collect();
        let fair: Vec<f64> = fair.iter().map(|fair| *fair as f64).collect();
        FleetOutcome {
            seed,
            processes,
            demanded: self.demanded.iter().sum(),
            admitted,
            unlimited: self.unlimited,
            stale: self.stale,
            above: self.above,
            bound: self.bound,
            used: used(false).unwrap_or(0.0),
            used_parted: used(true),
            // One process alone is treated as fairly as possible.
            fairness: (admitted > 0).then(|| fairness(&self.admitted, &fair).unwrap_or(1.0)),
            least: parts.iter().copied().min_by(f64::total_cmp),
            most: parts.iter().copied().max_by(f64::total_cmp),
            messages: self.messages,
        }
    }
}

/// Measures the excess over the rate in all spans of time at once: a bucket that drains at the rate, whose highest level is the
/// excess of the worst span.
#[derive(Debug)]
pub(super) struct Watch {
    rate: f64,
    level: f64,
    worst: f64,
    at: u64,
}

impl Watch {
    pub(super) fn new(rate: u64) -> Self {
        Self {
            rate: rate as f64,
            level: 0.0,
            worst: 0.0,
            at: 0,
        }
    }

    pub(super) fn admitted(&mut self, now: u64) {
        let drained = seconds(now - self.at) * self.rate;
        self.at = now;
        self.level = (self.level - drained).max(0.0) + 1.0;
        self.worst = self.worst.max(self.level);
    }

    pub(super) fn worst(&self) -> f64 {
        self.worst
    }
}

pub(super) fn second_of(now: u64) -> usize {
    index(now / NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_span_is_found() {
        let mut watch = Watch::new(10);
        // A burst of 5, then the rate for a second, then 3 at once: 8 above the rate, over the second.
        for _ in 0..5 {
            watch.admitted(0);
        }
        for tenth in 1..=10 {
            watch.admitted(tenth * NANOS / 10);
        }
        for _ in 0..3 {
            watch.admitted(NANOS);
        }
        assert!((watch.worst() - 8.0).abs() < 1e-6, "{}", watch.worst());
        watch.admitted(100 * NANOS);
        assert!((watch.worst() - 8.0).abs() < 1e-6);
    }
}
