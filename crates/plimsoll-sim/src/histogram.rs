/// Buckets to each doubling: a percentile is off by at most half a bucket, 0.4 %.
const BITS: u32 = 7;
const PER_DOUBLING: u64 = 1 << BITS;
const BUCKETS: usize = (64 - BITS as usize + 1) << BITS;

/// Counts of durations in nanoseconds, in buckets that grow with them.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: f64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
            sum: 0.0,
        }
    }

    pub(crate) fn add(&mut self, nanos: u64) {
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += 1;
            self.total += 1;
            self.sum += nanos as f64;
        }
    }

    /// In nanoseconds; `None` of nothing.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum / self.total as f64)
    }

    /// The duration below which the part `p` of all lies, in nanoseconds; `None` of nothing.
    pub(crate) fn percentile(&self, p: f64) -> Option<f64> {
        let mut before = crate::num::whole(p * self.total as f64).min(self.total.checked_sub(1)?);
        for (index, count) in self.counts.iter().enumerate() {
            if before < *count {
                return Some(middle(index));
            }
            before -= count;
        }
        None
    }
}

fn bucket(nanos: u64) -> usize {
    let shift = (63 - (nanos | 1).leading_zeros()).saturating_sub(BITS);
    // Of a value past the first doublings the leading bit is always set: it counts as one more block.
    crate::num::index(u64::from(shift) * PER_DOUBLING + (nanos >> shift))
}

fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    let shift = (bucket / PER_DOUBLING).saturating_sub(1);
    let start = (bucket - shift * PER_DOUBLING) << shift;
    start as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

/// The same of a few values, exactly. Puts them into another order.
pub(crate) fn percentile_of(values: &mut [u64], p: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let at = crate::num::index(crate::num::whole(p * values.len() as f64)).min(last);
    let (_, value, _) = values.select_nth_unstable(at);
    Some(*value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_found_again_within_half_a_percent() {
        let mut value = 1_u64;
        while value < 1 << 62 {
            for nanos in [value - 1, value, value + value / 3] {
                let found = middle(bucket(nanos));
                let error = (found - nanos as f64).abs();
                assert!(error <= 0.004 * nanos as f64, "{nanos}: {found}");
            }
            value *= 2;
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentiles_agree_with_sorting() {
        let mut values: Vec<u64> = (1..=10_000_u64)
            .map(|i| (i * i) % 7919 * 1_000 + i)
            .collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.add(*value));
        for p in [0.0, 0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = percentile_of(&mut values, p).unwrap();
            let found = histogram.percentile(p).unwrap();
            assert!((found / exact - 1.0).abs() < 0.005, "{p}: {found} {exact}");
        }
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!((histogram.mean().unwrap() / mean - 1.0).abs() < 1e-9);
        assert_eq!(Histogram::new().percentile(0.5), None);
        assert_eq!(Histogram::new().mean(), None);
        assert_eq!(percentile_of(&mut [], 0.5), None);
    }
}
