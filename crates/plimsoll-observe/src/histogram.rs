use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of buckets with a bound.
const BOUNDS: usize = 20;

/// Counts spans of time in buckets, each twice as wide as the one before.
///
/// The histogram of `prometheus-client` has a lock, and searches its buckets; here the bucket is computed, and
/// counting is two additions.
///
/// `FIRST` is the bound of the first bucket in nanoseconds: a constant, so dividing by it is cheap.
#[derive(Debug)]
pub(crate) struct Histogram<const FIRST: u64> {
    /// Not cumulative; the last one has no bound.
    buckets: [AtomicU64; BOUNDS + 1],
    /// In microseconds. In nanoseconds it would overflow 64 bits on a busy server within weeks.
    sum: AtomicU64,
}

/// The counts of a histogram.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// The bounds in seconds, and the counts.
    pub(crate) buckets: [(f64, u64); BOUNDS + 1],
    pub(crate) count: u64,
    /// In seconds.
    pub(crate) sum: f64,
}

impl<const FIRST: u64> Histogram<FIRST> {
    /// Creates a histogram with 20 bounds, each twice the one before.
    pub(crate) fn new() -> Self {
        Self {
            buckets: array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn observe(&self, nanos: u64) {
        let micros = nanos / 1000 + u64::from(nanos % 1000 >= 500);
        self.sum.fetch_add(micros, Ordering::Relaxed);
        self.buckets[Self::bucket(nanos)].fetch_add(1, Ordering::Relaxed);
    }

    /// The first bucket whose bound is not below `nanos`.
    fn bucket(nanos: u64) -> usize {
        // `nanos <= first * 2^k` exactly if `(nanos - 1) / first < 2^k`.
        let firsts = nanos.saturating_sub(1) / FIRST;
        let doublings = u64::BITS - firsts.leading_zeros();
        BOUNDS.min(doublings as usize)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a sum of times, exact up to centuries"
    )]
    pub(crate) fn read(&self) -> Counted {
        let mut bound = Duration::from_nanos(FIRST).as_secs_f64();
        let buckets = array::from_fn(|bucket| {
            let this = if bucket < BOUNDS {
                bound
            } else {
                f64::INFINITY
            };
            bound *= 2.0;
            (this, self.buckets[bucket].load(Ordering::Relaxed))
        });
        Counted {
            buckets,
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BOUNDS, Histogram};

    fn only_bucket(nanos: u64) -> usize {
        let histogram = Histogram::<1_000_000>::new();
        histogram.observe(nanos);
        let counted = histogram.read();
        assert_eq!(counted.count, 1);
        let holds = counted.buckets.iter().position(|(_, count)| *count == 1);
        holds.unwrap()
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let table = [
            (0, 0),
            (1, 0),
            (1_000_000, 0),
            (1_000_001, 1),
            (2_000_000, 1),
            (2_000_001, 2),
            (524_288_000_000, 19),
            (524_288_000_001, 20),
            (u64::MAX, 20),
        ];
        for (nanos, bucket) in table {
            assert_eq!(only_bucket(nanos), bucket, "{nanos}");
        }
    }

    proptest! {
        #[test]
        fn the_computed_bucket_is_that_of_a_search(nanos in 0_u64..1_000_000_000_000) {
            let bound = |bucket: usize| 1_000_000_u64 << bucket;
            let found = (0..BOUNDS).find(|bucket| nanos <= bound(*bucket)).unwrap_or(BOUNDS);
            prop_assert_eq!(only_bucket(nanos), found);
        }
    }
}
