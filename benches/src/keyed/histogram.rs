//! How often something took how long.

use std::fmt::Write;

/// Counts by duration, an eighth of a power of two apart.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

const PLACES: usize = 62 * 8;

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; PLACES],
            max: 0,
        }
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, nanos: u64) {
        self.counts[place(nanos)] += 1;
        self.max = self.max.max(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, others) in self.counts.iter_mut().zip(&other.counts) {
            *mine += others;
        }
        self.max = self.max.max(other.max);
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What all but one of `one_in` took at most, to an eighth.
    pub(crate) fn all_but_one_in(&self, one_in: u64) -> u64 {
        let mut above = self.count() / one_in;
        for (place, count) in self.counts.iter().enumerate().rev() {
            if *count > above {
                return last(place).min(self.max);
            }
            above -= count;
        }
        0
    }

    /// How many took at least `from` and less than `to`, each nought or a power of two from 8.
    pub(crate) fn between(&self, from: u64, to: u64) -> u64 {
        self.counts[place(from)..place(to)].iter().sum()
    }

    /// What another process can read it from.
    pub(crate) fn written(&self) -> String {
        let mut text = format!("{}\n", self.max);
        for (place, count) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let _ = writeln!(text, "{place} {count}");
        }
        text
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut histogram = Self {
            max: lines.next()?.parse().ok()?,
            ..Self::default()
        };
        for line in lines {
            let (place, count) = line.split_once(' ')?;
            *histogram.counts.get_mut(place.parse::<usize>().ok()?)? = count.parse().ok()?;
        }
        Some(histogram)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below 8 times 62")]
fn place(nanos: u64) -> usize {
    if nanos < 8 {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    let eighth = (nanos >> (power - 3)) & 7;
    ((u64::from(power) - 2) * 8 + eighth) as usize
}

/// The longest duration that is counted at a place.
fn last(place: usize) -> u64 {
    let place = place as u64;
    if place < 8 {
        return place;
    }
    let (power, eighth) = (place / 8 + 2, place % 8);
    let width = 1 << (power - 3);
    (8 + eighth) * width + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_where_it_is_looked_for() {
        for nanos in [0, 7, 8, 9, 100, 1000, 123_456_789, u64::MAX / 2, u64::MAX] {
            let mut times = Histogram::default();
            times.add(nanos);
            assert_eq!(times.all_but_one_in(2), nanos);
            assert!(last(place(nanos)) >= nanos);
            assert!(last(place(nanos)) - nanos <= nanos / 8);
        }
    }

    #[test]
    fn one_in_ten_thousand_may_take_longer() {
        let mut times = Histogram::default();
        for _ in 0..19_998 {
            times.add(100);
        }
        times.add(5_000_000);
        times.add(5_000_000);
        assert!(times.all_but_one_in(10_000) < 113);
        times.add(5_000_000);
        assert_eq!(times.all_but_one_in(10_000), 5_000_000);
        assert_eq!(times.between(64, 128), 19_998);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut times = Histogram::default();
        times.add(3);
        times.add(77);
        let read = Histogram::read(&times.written()).expect("a histogram");
        assert_eq!(read.written(), times.written());
    }
}
