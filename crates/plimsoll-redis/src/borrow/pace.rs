use std::time::Duration;

use plimsoll::Moment;

/// The rate at which a key is used, which determines the size of its batches. Without a clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    batch: u64,
    used: u64,
    since: Moment,
}

impl Pace {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            batch: 0,
            used: 0,
            since: now,
        }
    }

    pub(super) fn used(&mut self, cost: u64) {
        self.used = self.used.saturating_add(cost);
    }

    /// The last batch.
    pub(super) fn batch(&self) -> u64 {
        self.batch
    }

    pub(super) fn since(&self) -> Moment {
        self.since
    }

    /// The next batch: the amount used in the target time, at most twice the batch before, so that an initial burst has
    /// little effect.
    pub(super) fn next(&mut self, now: Moment, target: Duration, most: u64) -> u64 {
        let passed = u128::from(now.nanos_since(self.since)).max(1);
        let enough = u128::from(self.used).saturating_mul(target.as_nanos()) / passed;
        let twice = self.batch.max(1).saturating_mul(2);
        let enough = u64::try_from(enough).unwrap_or(u64::MAX);
        self.batch = enough.min(twice).clamp(1, most.max(1));
        (self.used, self.since) = (0, now);
        self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn batches_follow_demand() {
        let mut pace = Pace::new(at(0));
        assert_eq!(pace.next(at(0), TARGET, 100), 1);
        // 4 a millisecond are 200 in the target time: twice as much each time, up to the most.
        let mut batches = Vec::new();
        for round in 1..=8 {
            pace.used(4);
            batches.push(pace.next(at(round), TARGET, 100));
        }
        assert_eq!(batches, [2, 4, 8, 16, 32, 64, 100, 100]);
        // One in 10 ms is 5 in the target time; one in a second is not even 1.
        pace.used(1);
        assert_eq!(pace.next(at(18), TARGET, 100), 5);
        pace.used(1);
        assert_eq!(pace.next(at(1018), TARGET, 100), 1);
    }

    #[test]
    fn time_that_stands_still_and_large_numbers_are_no_trouble() {
        let mut pace = Pace::new(at(5));
        for expected in [2, 4, 8] {
            pace.used(u64::MAX);
            assert_eq!(pace.next(at(5), Duration::MAX, u64::MAX), expected);
        }
        pace.used(1);
        assert_eq!(pace.next(at(0), TARGET, 0), 1);
    }
}
