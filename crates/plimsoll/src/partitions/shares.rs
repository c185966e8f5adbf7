//! The share of each partition of a limit.

use crate::{Demand, Moment};

/// The accounts of all partitions.
#[derive(Debug)]
pub(super) struct Shares {
    parts: Vec<Part>,
    /// The sum of all weights.
    weights: u64,
    /// The time for which a share is not lent after its partition last asked for it.
    lend_after: u64,
}

#[derive(Debug)]
struct Part {
    weight: u32,
    /// The amount that it holds or waits for.
    in_use: u64,
    /// The most that it asked for in the current interval, and in the previous one.
    asked: [u64; 2],
    /// The end of the current interval.
    until: Moment,
}

impl Shares {
    pub(super) fn new(
        weights: impl IntoIterator<Item = u32>,
        lend_after: u64,
        now: Moment,
    ) -> Self {
        let part = |weight| Part {
            weight,
            in_use: 0,
            asked: [0; 2],
            until: now,
        };
        let parts: Vec<Part> = weights.into_iter().map(part).collect();
        let weights = parts.iter().map(|part| u64::from(part.weight)).sum();
        Self {
            parts,
            weights,
            lend_after,
        }
    }

    /// Changes the weights of some partitions, by their positions.
    pub(super) fn set_weights(&mut self, weights: &[(usize, u32)]) {
        for (index, weight) in weights {
            self.parts[*index].weight = *weight;
        }
        let weights = self.parts.iter().map(|part| u64::from(part.weight));
        self.weights = weights.sum();
    }

    /// The share of a partition: its part of the limit, rounded down, and at least 1.
    pub(super) fn share(&self, index: usize, limit: u64) -> u64 {
        let share = u128::from(limit) * u128::from(self.parts[index].weight);
        // At most the limit: no weight is above the sum of all.
        u64::try_from(share / u128::from(self.weights))
            .unwrap_or(limit)
            .max(1)
    }

    /// The most that a partition may hold now: its share, and the parts that the others do not claim.
    fn allowed(&mut self, index: usize, limit: u64, now: Moment) -> u64 {
        let mut kept = 0_u64;
        for other in (0..self.parts.len()).filter(|other| *other != index) {
            let share = self.share(other, limit);
            let part = &mut self.parts[other];
            let asked = part.asked_lately(now, self.lend_after);
            kept = kept.saturating_add(part.in_use.max(asked.min(share)));
        }
        let share = self.share(index, limit);
        limit.saturating_sub(kept).max(share)
    }

    /// Sets `cost` aside for a partition, or returns the part of it that the partition may have.
    pub(super) fn claim(
        &mut self,
        index: usize,
        demand: Demand,
        limit: u64,
        now: Moment,
    ) -> Result<(), u64> {
        let allowed = self.allowed(index, limit, now);
        let lend_after = self.lend_after;
        let part = &mut self.parts[index];
        let wanted = part.in_use.saturating_add(demand.weight());
        part.ask(wanted, now, lend_after);
        if wanted > allowed {
            return Err(allowed.saturating_sub(part.in_use));
        }
        part.in_use = part.in_use.saturating_add(demand.cost);
        Ok(())
    }

    /// The amount that a partition could claim.
    pub(super) fn available(&mut self, index: usize, limit: u64, now: Moment) -> u64 {
        let allowed = self.allowed(index, limit, now);
        allowed.saturating_sub(self.parts[index].in_use)
    }

    /// Counts a grant to a partition without a claim.
    pub(super) fn add(&mut self, index: usize, cost: u64) {
        let part = &mut self.parts[index];
        part.in_use = part.in_use.saturating_add(cost);
    }

    pub(super) fn release(&mut self, index: usize, cost: u64) {
        let part = &mut self.parts[index];
        part.in_use = part.in_use.saturating_sub(cost);
    }

    pub(super) fn set_lend_after(&mut self, nanos: u64) {
        self.lend_after = nanos;
    }

    pub(super) fn in_use(&self, index: usize) -> u64 {
        self.parts[index].in_use
    }
}

impl Part {
    /// The most that it asked for recently.
    fn asked_lately(&mut self, now: Moment, lend_after: u64) -> u64 {
        self.turn(now, lend_after);
        self.asked[0].max(self.asked[1])
    }

    fn ask(&mut self, wanted: u64, now: Moment, lend_after: u64) {
        self.turn(now, lend_after);
        self.asked[0] = self.asked[0].max(wanted);
    }

    /// Starts a new interval if the current one is over.
    fn turn(&mut self, now: Moment, lend_after: u64) {
        if now < self.until {
            return;
        }
        let missed = now.nanos_since(self.until) >= lend_after;
        self.asked = [self.in_use, if missed { 0 } else { self.asked[0] }];
        self.until = now.plus_nanos(lend_after);
    }
}
