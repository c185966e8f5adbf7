//! How often something took how long.

use std::fmt::Write;

/// Counts by duration, to a thousandth.
#[derive(Clone, Debug)]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

/// An hour: it is never made larger while something is measured.
const LONGEST: u64 = 3_600_000_000_000;

impl Default for Histogram {
    fn default() -> Self {
        let bounds = hdrhistogram::Histogram::new_with_bounds(1, LONGEST, 3);
        Self(bounds.expect("bounds and digits that are allowed"))
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the same bounds");
    }

    pub(crate) fn max(&self) -> u64 {
        self.0.max()
    }

    /// What all but one of `one_in` took at most.
    pub(crate) fn all_but_one_in(&self, one_in: u64) -> u64 {
        self.0.value_at_quantile(1.0 - 1.0 / one_in as f64)
    }

    /// How many took at least `from` and less than `to`, each nought or a power of two.
    pub(crate) fn between(&self, from: u64, to: u64) -> u64 {
        self.0.count_between(from, to - 1)
    }

    /// What another process can read it from.
    pub(crate) fn written(&self) -> String {
        let mut text = String::new();
        for one in self.0.iter_recorded() {
            let _ = writeln!(text, "{} {}", one.value_iterated_to(), one.count_at_value());
        }
        text
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut histogram = Self::default();
        for line in text.lines() {
            let (nanos, count) = line.split_once(' ')?;
            let (nanos, count) = (nanos.parse().ok()?, count.parse().ok()?);
            histogram.0.saturating_record_n(nanos, count);
        }
        Some(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_ten_thousand_may_take_longer() {
        let mut times = Histogram::default();
        for _ in 0..19_998 {
            times.add(100);
        }
        times.add(5_000_000);
        times.add(5_000_000);
        assert_eq!(times.all_but_one_in(10_000), 100);
        times.add(5_000_000);
        assert!((5_000_000..5_005_000).contains(&times.all_but_one_in(10_000)));
        assert_eq!(times.between(64, 128), 19_998);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut times = Histogram::default();
        times.add(3);
        times.add(77_777_777);
        let read = Histogram::read(&times.written()).expect("a histogram");
        assert_eq!(read.written(), times.written());
    }
}
