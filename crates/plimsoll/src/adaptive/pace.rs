//! The choice of work that is timed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Moment;

/// The number of permits timed in each tick of the kernel. With ticks of 4 ms these are all permits up to about ten
/// thousand a second, and a large enough sample beyond.
const EACH_TICK: u64 = 64;

/// Chooses the work that is timed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The current tick, and the number of permits timed in it.
    tick: AtomicU64,
    in_tick: AtomicU64,
    /// The total number of timed permits. Not counted while everything is timed.
    timed: AtomicU64,
    skips: AtomicU64,
    /// The number of permits that were not timed when the last sample came.
    untimed: AtomicU64,
}

impl Pace {
    /// Whether work that begins in this tick is timed. Two threads that ask at once may both get `true`.
    #[inline]
    pub(super) fn times(&self, tick: Moment) -> bool {
        let tick = tick.as_nanos();
        let mut in_tick = 0;
        if self.tick.load(Ordering::Relaxed) == tick {
            in_tick = self.in_tick.load(Ordering::Relaxed);
            if in_tick >= EACH_TICK {
                if self.skips.load(Ordering::Relaxed) == 0 {
                    self.skips.store(1, Ordering::Relaxed);
                }
                return false;
            }
        } else {
            self.tick.store(tick, Ordering::Relaxed);
        }
        self.in_tick.store(in_tick + 1, Ordering::Relaxed);
        self.timed.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The number of timed permits, if not all were timed.
    #[inline]
    pub(super) fn timed(&self) -> Option<u64> {
        let skips = self.skips.load(Ordering::Relaxed) != 0;
        skips.then(|| self.timed.load(Ordering::Relaxed))
    }

    /// The number of permits that a sample represents, if this many were not timed.
    #[inline]
    pub(super) fn weight(&self, untimed: u64) -> u32 {
        let before = self.untimed.load(Ordering::Relaxed);
        if untimed <= before {
            return 1;
        }
        self.untimed.store(untimed, Ordering::Relaxed);
        u32::try_from(untimed - before)
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{EACH_TICK, Pace};
    use crate::Moment;

    #[test]
    fn a_tick_is_timed_up_to_a_number_and_the_rest_is_counted() {
        let pace = Pace::default();
        for tick in 1..=3 {
            let tick = Moment::from_nanos(tick);
            assert_eq!(pace.timed(), None, "all was timed so far");
            for _ in 0..EACH_TICK {
                assert!(pace.times(tick));
            }
        }
        assert!(!pace.times(Moment::from_nanos(3)));
        assert_eq!(pace.timed(), Some(3 * EACH_TICK));
        assert!(pace.times(Moment::from_nanos(4)), "a new tick");
    }

    #[test]
    fn a_sample_stands_for_what_was_not_timed_since_the_last() {
        let pace = Pace::default();
        let weights = [0, 0, 10, 10, 9, 25].map(|untimed| pace.weight(untimed));
        assert_eq!(weights, [1, 1, 11, 1, 1, 16]);
    }
}
