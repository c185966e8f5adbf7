//! The cost of each key in its busiest second, ten seconds and minute.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use crate::distinct::Hashed;
use crate::time::SECOND;

/// The spans, in seconds.
pub(crate) const SPANS: [i64; 3] = [1, 10, 60];

/// The largest number of keys that are tracked at once.
const MOST: usize = 1 << 18;

/// The peaks of the keys of one limit.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    keys: HashMap<u64, Key, BuildHasherDefault<Hashed>>,
    /// The number of keys by peak, of keys that are no longer tracked.
    done: [BTreeMap<u64, u64>; 3],
    /// The number of keys that were evicted while more requests of theirs were possible.
    pub(crate) forgotten: u64,
}

/// The cost of a key in the current span, and in its busiest one.
#[derive(Debug, Default)]
struct Key {
    span: [u32; 3],
    count: [u32; 3],
    peak: [u32; 3],
}

impl Peaks {
    pub(crate) fn add(&mut self, key: u64, at: i64, cost: u64) {
        if self.keys.len() >= MOST && !self.keys.contains_key(&key) {
            self.forget(at);
        }
        let key = self.keys.entry(key).or_default();
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        for (index, seconds) in SPANS.into_iter().enumerate() {
            let span = u32::try_from(at / (seconds * SECOND)).unwrap_or(0);
            if key.span[index] != span {
                (key.span[index], key.count[index]) = (span, 0);
            }
            key.count[index] = key.count[index].saturating_add(cost);
            key.peak[index] = key.peak[index].max(key.count[index]);
        }
    }

    /// Makes room: evicts the keys without a request in this minute or the last one. If that is less than half of all keys,
    /// evicts all of them.
    fn forget(&mut self, at: i64) {
        let minute = u32::try_from(at / (60 * SECOND)).unwrap_or(0);
        let before = self.keys.len();
        let done = &mut self.done;
        self.keys.retain(|_, key| {
            let stays = key.span[2] + 1 >= minute;
            if !stays {
                note(done, key);
            }
            stays
        });
        if self.keys.len() > before / 2 {
            self.keys.drain().for_each(|(_, key)| note(done, &key));
        }
        self.forgotten += (before - self.keys.len()) as u64;
    }

    /// The percentiles of the peaks over keys, for each span.
    pub(crate) fn percentiles(&mut self, percents: &[f64]) -> Vec<Vec<u64>> {
        self.keys
            .drain()
            .for_each(|(_, key)| note(&mut self.done, &key));
        let of = |counts: &BTreeMap<u64, u64>| {
            let keys: u64 = counts.values().sum();
            let one = |percent: &f64| {
                let mut sum = 0;
                let found = counts.iter().find(|(_, count)| {
                    sum += **count;
                    sum as f64 >= keys as f64 * percent / 100.0
                });
                found
                    .or_else(|| counts.last_key_value())
                    .map_or(0, |(peak, _)| *peak)
            };
            percents.iter().map(one).collect()
        };
        self.done.iter().map(of).collect()
    }
}

fn note(done: &mut [BTreeMap<u64, u64>; 3], key: &Key) {
    for (counts, peak) in done.iter_mut().zip(key.peak) {
        *counts.entry(rounded(peak.into())).or_default() += 1;
    }
}

/// Rounds a number up to three digits, to bound the number of distinct values.
fn rounded(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 1000 {
        unit *= 10;
    }
    number.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_spans_count_and_memory_is_bounded() {
        let mut peaks = Peaks::default();
        for second in 0..100 {
            for _ in 0..=(second % 7) {
                peaks.add(1, second * SECOND, 1);
            }
        }
        peaks.add(2, 5 * SECOND, 3);
        let [one, ten, minute] = &peaks.percentiles(&[50.0, 100.0])[..] else {
            unreachable!()
        };
        assert_eq!(*one, [3, 7]);
        assert_eq!(ten[0], 3);
        assert!(minute[1] > 200);

        let mut many = Peaks::default();
        for key in 0..(MOST as u64 * 2) {
            many.add(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), 0, 1);
        }
        assert!(many.keys.len() <= MOST && many.forgotten > 0);
        assert_eq!(rounded(1234), 1240);
    }
}
