//! Counts distinct keys in bounded memory.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// The largest number of keys that are counted exactly.
const EXACT: usize = 2048;

/// The binary logarithm of the number of registers: the standard error is 1.6 %.
const BITS: u32 = 12;

/// A counter of distinct keys: exact while they are few, then a `HyperLogLog`.
#[derive(Debug)]
pub(crate) enum Distinct {
    Exact(HashSet<u64, BuildHasherDefault<Hashed>>),
    Estimated(Box<[u8]>),
}

impl Default for Distinct {
    fn default() -> Self {
        Self::Exact(HashSet::default())
    }
}

/// A hasher for keys that are already hashes.
#[derive(Debug, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A hash that is the same in every run.
pub(crate) fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl Distinct {
    pub(crate) fn add(&mut self, hash: u64) {
        match self {
            Self::Exact(known) => {
                known.insert(hash);
                if known.len() > EXACT {
                    let mut registers = vec![0; 1 << BITS].into_boxed_slice();
                    known.iter().for_each(|hash| note(&mut registers, *hash));
                    *self = Self::Estimated(registers);
                }
            }
            Self::Estimated(registers) => note(registers, hash),
        }
    }

    pub(crate) const fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }

    pub(crate) fn count(&self) -> u64 {
        let registers = match self {
            Self::Exact(known) => return known.len() as u64,
            Self::Estimated(registers) => registers,
        };
        let size = registers.len() as f64;
        let sum: f64 = registers
            .iter()
            .map(|rank| (-f64::from(*rank)).exp2())
            .sum();
        let raw = 0.7213 / (1.0 + 1.079 / size) * size * size / sum;
        let empty = registers.iter().filter(|rank| **rank == 0).count();
        let estimate = match empty {
            1.. if raw <= 2.5 * size => size * (size / empty as f64).ln(),
            _ => raw,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive, and far below 2^64"
        )]
        let rounded = estimate.round() as u64;
        rounded
    }
}

fn note(registers: &mut [u8], hash: u64) {
    let at = usize::try_from(hash >> (64 - BITS)).unwrap_or(0);
    let rank = (hash << BITS | 1 << (BITS - 1)).leading_zeros() + 1;
    let rank = u8::try_from(rank).unwrap_or(u8::MAX);
    registers[at] = registers[at].max(rank);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_counted_exactly_and_many_nearly() {
        let mut distinct = Distinct::default();
        for key in 0..2000 {
            distinct.add(hash(&key.to_string()));
            distinct.add(hash("again"));
        }
        assert_eq!(distinct.count(), 2001);
        for wanted in [5_000_u64, 50_000, 500_000] {
            let mut distinct = Distinct::default();
            (0..wanted).for_each(|key| distinct.add(hash(&key.to_string())));
            let error = distinct.count().abs_diff(wanted) as f64 / wanted as f64;
            assert!(error < 0.05, "{wanted}: {}", distinct.count());
        }
    }
}
