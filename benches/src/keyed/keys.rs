//! Keys, and the order in which they come.

use std::fmt::Display;
use std::hash::Hash;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_distr::Zipf;

use super::contenders::{self, Entrant};
use super::peers;

/// A kind of key: a number, or a text of 21 bytes.
pub(crate) trait Key: Hash + Eq + Clone + Display + Send + Sync + 'static {
    /// What reports call it.
    const KIND: &'static str;
    /// How many keys are asked for before they come again: more than the caches hold.
    const SEQUENCE: usize;

    /// The key of an id. Different ids have different keys, which are not in any order.
    fn of(id: u64) -> Self;

    /// All of the key in 64 bits, or as much as fits.
    fn word(&self) -> u64;

    /// Reads the key.
    fn touch(&self) -> u64;

    /// Our limits of this kind of key.
    fn ours() -> Vec<Entrant<Self>>;

    /// The peers that take this kind of key in a way of their own.
    fn peers() -> Vec<Entrant<Self>>;
}

impl Key for u64 {
    const KIND: &'static str = "u64";
    const SEQUENCE: usize = 1 << 23;

    fn of(id: u64) -> Self {
        mixed(id)
    }

    fn word(&self) -> u64 {
        *self
    }

    fn touch(&self) -> u64 {
        *self
    }

    fn ours() -> Vec<Entrant<Self>> {
        contenders::of_numbers()
    }

    fn peers() -> Vec<Entrant<Self>> {
        peers::of_numbers()
    }
}

impl Key for String {
    const KIND: &'static str = "strings";
    const SEQUENCE: usize = 1 << 21;

    fn of(id: u64) -> Self {
        format!("user:{:016x}", mixed(id))
    }

    fn word(&self) -> u64 {
        self.bytes()
            .skip(5)
            .fold(0, |word, digit| word * 31 + u64::from(digit))
    }

    fn touch(&self) -> u64 {
        let bytes = self.as_bytes();
        u64::from(bytes[0]) + u64::from(bytes[bytes.len() - 1])
    }

    fn ours() -> Vec<Entrant<Self>> {
        contenders::of_texts()
    }

    fn peers() -> Vec<Entrant<Self>> {
        peers::of_texts()
    }
}

/// A number for each number, without any order: the finalizer of splitmix64 by Steele, Lea and Flood.
fn mixed(id: u64) -> u64 {
    let z = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How often which key comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// All equally often.
    Uniform,
    /// The n-th most frequent in proportion to n^-0.99. Which those are is drawn by lot, so that keys that are
    /// often asked for do not lie side by side because they came in one after the other.
    Zipf,
}

/// So many keys of the ids below `ids` as they come; the same at every call.
pub(crate) fn sequence<K: Key>(spread: Spread, ids: usize, length: usize) -> Vec<K> {
    let mut rng = StdRng::seed_from_u64(7);
    let ids = ids as u64;
    match spread {
        Spread::Uniform => (0..length)
            .map(|_| K::of(rng.random_range(0..ids)))
            .collect(),
        Spread::Zipf => {
            let mut by_rank: Vec<u64> = (0..ids).collect();
            by_rank.shuffle(&mut rng);
            let ranks = Zipf::new(ids as f64, 0.99).expect("at least one id");
            (0..length)
                .map(|_| {
                    let rank = rng.sample(ranks);
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a whole number from 1 to the number of ids"
                    )]
                    let place = rank as usize - 1;
                    K::of(by_rank[place.min(by_rank.len() - 1)])
                })
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn texts_have_21_bytes() {
        assert_eq!(String::of(0).len(), 21);
        assert_eq!(String::of(u64::MAX).len(), 21);
    }

    #[test]
    fn the_most_frequent_key_comes_as_often_as_zipf_says() {
        let keys = sequence::<u64>(Spread::Zipf, 1000, 200_000);
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for key in &keys {
            *counts.entry(*key).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0) as f64 / keys.len() as f64;
        let all: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        assert!((most * all - 1.0).abs() < 0.02, "{most} of 1 / {all}");
    }
}
