//! How much of a limit each of its partitions may have.

use crate::{Demand, Moment};

/// The accounts of all partitions.
#[derive(Debug)]
pub(super) struct Shares {
    parts: Vec<Part>,
    /// The sum of all weights.
    weights: u64,
    /// For so long a share is not lent after its partition last asked for it.
    lend_after: u64,
}

#[derive(Debug)]
struct Part {
    weight: u32,
    /// What it has, or waits for.
    in_use: u64,
    /// The most it asked for in the present stretch of time, and in the one before.
    asked: [u64; 2],
    /// When the present stretch ends.
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

    /// What a partition has a right to: its part of the limit, rounded down, and at least 1.
    pub(super) fn share(&self, index: usize, limit: u64) -> u64 {
        let share = u128::from(limit) * u128::from(self.parts[index].weight);
        // At most the limit: no weight is above the sum of all.
        u64::try_from(share / u128::from(self.weights))
            .unwrap_or(limit)
            .max(1)
    }

    /// The most a partition may have now: its share, and what the others do not claim.
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

    /// Sets what is asked for aside for a partition, or says how much of it it may have.
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

    /// How much a partition could claim.
    pub(super) fn available(&mut self, index: usize, limit: u64, now: Moment) -> u64 {
        let allowed = self.allowed(index, limit, now);
        allowed.saturating_sub(self.parts[index].in_use)
    }

    /// Counts what a partition was granted without having claimed it.
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
    /// The most it asked for lately.
    fn asked_lately(&mut self, now: Moment, lend_after: u64) -> u64 {
        self.turn(now, lend_after);
        self.asked[0].max(self.asked[1])
    }

    fn ask(&mut self, wanted: u64, now: Moment, lend_after: u64) {
        self.turn(now, lend_after);
        self.asked[0] = self.asked[0].max(wanted);
    }

    /// Begins a new stretch of time if the present one is over.
    fn turn(&mut self, now: Moment, lend_after: u64) {
        if now < self.until {
            return;
        }
        let missed = now.nanos_since(self.until) >= lend_after;
        self.asked = [self.in_use, if missed { 0 } else { self.asked[0] }];
        self.until = now.plus_nanos(lend_after);
    }
}
