use plimsoll_quota::max_min;
use serde::Serialize;

use super::model::{Fleet, FleetMetric};
use crate::num::{NANOS, index, seconds};
use crate::summary::fairness;

/// What came of a fleet with one seed.
///
/// Shares are parts of 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct FleetOutcome {
    /// What chance was drawn from.
    pub seed: u64,
    /// How many processes there were.
    pub processes: u32,
    /// How many requests came.
    pub demanded: u64,
    /// How many were admitted by the limit.
    pub admitted: u64,
    /// How many were admitted by processes that could not ask, without the limit.
    pub unlimited: u64,
    /// How many were admitted by assignments of a server that had been restarted since.
    pub stale: u64,
    /// By how much the admitted were above the rate in the worst span of time.
    pub above: f64,
    /// By how much they may be.
    pub bound: f64,
    /// What was admitted, as a part of what the limit and the demand would have allowed.
    pub used: f64,
    /// The same while some processes were cut off; `None` if none ever was.
    pub used_parted: Option<f64>,
    /// How evenly, by the index of Jain: of what each process had, as a part of what was fair for it.
    pub fairness: f64,
    /// What the process had that had least, as a part of what was fair for it: of what all had, max-min by demand.
    pub least: f64,
    /// The same of the process that had most.
    pub most: f64,
    /// How many messages there were.
    pub messages: u64,
}

impl FleetOutcome {
    pub(super) fn metric(&self, metric: FleetMetric) -> Option<f64> {
        match metric {
            FleetMetric::Above => (self.bound > 0.0).then(|| self.above / self.bound),
            FleetMetric::Used => Some(self.used),
            FleetMetric::UsedParted => self.used_parted,
            FleetMetric::Fairness => Some(self.fairness),
            FleetMetric::Least => Some(self.least),
            FleetMetric::Most => Some(self.most),
        }
    }
}

/// What is counted while a fleet runs.
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
    /// Sums up.
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
            fairness: fairness(&self.admitted, &fair).unwrap_or(1.0),
            least: parts.iter().copied().fold(f64::INFINITY, f64::min),
            most: parts.iter().copied().fold(0.0, f64::max),
            messages: self.messages,
        }
    }
}

/// Watches all spans of time at once: what is above the rate drains at the rate, and its highest level is that of the
/// worst span.
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
