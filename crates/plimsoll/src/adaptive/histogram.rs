//! A histogram of latencies in fixed memory.

/// Buckets in each octave: a bucket is at most 1/32 wide, and [`quantile`](Histogram::quantile) interpolates in it.
const STEPS: usize = 32;
/// Latencies are counted in units of 2^5 ns. Below `STEPS` units (a microsecond) buckets are one unit wide.
const UNIT_BITS: u32 = 5;
/// The last octave ends at 2^42 ns, more than an hour. Longer latencies are counted there.
const OCTAVES: usize = 32;
const BUCKETS: usize = STEPS * (OCTAVES + 1);

/// Latencies of one window, by logarithm.
///
/// Recording is a shift, a count of leading zeros and an addition; nothing is sorted or allocated.
#[derive(Clone)]
pub(super) struct Histogram {
    counts: [u32; BUCKETS],
    total: u32,
    /// The range of buckets that may be non-empty, so that the other buckets are skipped.
    first: usize,
    last: usize,
}

impl Histogram {
    pub(super) const fn new() -> Self {
        Self {
            counts: [0; BUCKETS],
            total: 0,
            first: BUCKETS - 1,
            last: 0,
        }
    }

    pub(super) fn record(&mut self, nanos: u64) {
        let bucket = bucket(nanos);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.total = self.total.saturating_add(1);
        self.first = self.first.min(bucket);
        self.last = self.last.max(bucket);
    }

    /// The number of latencies.
    pub(super) const fn len(&self) -> u32 {
        self.total
    }

    pub(super) fn clear(&mut self) {
        if self.total > 0 {
            self.counts[self.first..=self.last].fill(0);
        }
        self.total = 0;
        self.first = BUCKETS - 1;
        self.last = 0;
    }

    /// The latency in nanoseconds below which this share of the latencies lies; 0 if there are none.
    ///
    /// Latencies are taken as evenly spread over their bucket. Otherwise a signal near the edge of a bucket would jump
    /// by its width.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        let rank = share * f64::from(self.total);
        let mut below = 0.0;
        for bucket in self.first..=self.last {
            let count = f64::from(self.counts[bucket]);
            if count > 0.0 && below + count >= rank {
                let into = (rank - below) / count;
                let (from, to) = (edge(bucket), edge(bucket + 1));
                return from + (to - from) * into;
            }
            below += count;
        }
        edge(self.last + 1)
    }
}

/// The bucket of a latency.
#[inline]
fn bucket(nanos: u64) -> usize {
    let units = nanos >> UNIT_BITS;
    let steps = STEPS as u64;
    if units < steps {
        return index(units);
    }
    let octave = units.ilog2() - steps.ilog2();
    let within = (units >> octave) - steps;
    index(steps * u64::from(octave + 1) + within)
}

#[inline]
fn index(number: u64) -> usize {
    usize::try_from(number).map_or(BUCKETS - 1, |number| number.min(BUCKETS - 1))
}

/// The lower edge of a bucket, in nanoseconds.
fn edge(bucket: usize) -> f64 {
    let unit = f64::from(1_u32 << UNIT_BITS);
    if bucket < STEPS {
        return bucket as f64 * unit;
    }
    let octave = u32::try_from(bucket / STEPS - 1).unwrap_or(u32::MAX);
    let within = (bucket % STEPS + STEPS) as f64;
    within * 2_f64.powi(octave.cast_signed()) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_in_its_bucket() {
        for bits in 0..42 {
            for nanos in [1_u64 << bits, (1 << bits) + 1, (1 << bits) * 3 / 2] {
                let bucket = bucket(nanos);
                let nanos = nanos as f64;
                assert!(edge(bucket) <= nanos && nanos < edge(bucket + 1), "{nanos}");
            }
        }
    }

    #[test]
    fn what_takes_hours_is_counted_at_the_end() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.len(), 1);
        assert!(histogram.quantile(0.5) > 3_600e9);
        assert!(histogram.quantile(0.5).is_finite());
    }

    #[test]
    fn quantiles_are_those_of_the_latencies() {
        let mut histogram = Histogram::new();
        for micros in 1..=10_000 {
            histogram.record(micros * 1_000);
        }
        for share in [0.01, 0.1, 0.25, 0.5, 0.9, 0.95] {
            let exact = share * 1e7;
            let error = (histogram.quantile(share) - exact).abs() / exact;
            assert!(error < 0.005, "{share}: off by {error}");
        }
    }

    #[test]
    fn an_empty_one_says_nothing() {
        let mut histogram = Histogram::new();
        assert!(histogram.quantile(0.5).abs() < f64::EPSILON);
        histogram.record(0);
        histogram.record(5_000_000);
        histogram.clear();
        assert_eq!(histogram.len(), 0);
        assert!(histogram.counts.iter().all(|count| *count == 0));
    }
}
