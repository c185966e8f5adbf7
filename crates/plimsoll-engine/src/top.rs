//! The most frequent keys, in bounded memory.

use std::hash::BuildHasher;

use plimsoll::KeyHash;

/// The number of keys that are counted at the same time.
const COUNTED: usize = 128;

/// The number of bytes of a key that are stored. Keys that agree in them are counted as one.
const LONGEST: usize = 256;

/// Counts the most frequent keys, in bounded memory.
///
/// It is the space-saving sketch of Metwally and others: a key that is not counted yet replaces the one with the smallest
/// count, and inherits that count as its possible error. Every key with more than a 128th of the total is counted.
///
/// ```
/// let mut top = plimsoll_engine::TopKeys::default();
/// for visitor in ["anna", "bert", "anna"] {
///     top.add(visitor, 1);
/// }
/// let most = top.most(1, true);
/// assert_eq!((most[0].key.as_str(), most[0].count), ("anna", 2));
/// ```
#[derive(Debug, Default)]
pub struct TopKeys {
    /// The hashes and the counts of the keys, in lists of their own: each `add` scans both, which is faster than a map in which the
    /// smallest count has to be found.
    hashes: Vec<u64>,
    counts: Vec<u64>,
    keys: Vec<Counted>,
    hasher: KeyHash,
}

#[derive(Debug)]
struct Counted {
    key: String,
    error: u64,
}

/// One of the most frequent keys.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TopKey {
    /// The key, [masked](mask) unless the caller asked for raw keys.
    pub key: String,
    /// Its count, which is never too small.
    pub count: u64,
    /// The most by which the count may be too large.
    pub error: u64,
}

impl TopKeys {
    /// Adds `amount` to the count of `key`.
    pub fn add(&mut self, key: &str, amount: u64) {
        let key = bounded(key);
        let hash = self.hasher.hash_one(key);
        let mut known = self.hashes.iter().enumerate();
        let known = known.find(|(at, it)| **it == hash && self.keys[*at].key == key);
        if let Some((at, _)) = known {
            self.counts[at] = self.counts[at].saturating_add(amount);
            return;
        }
        if self.keys.len() < COUNTED {
            self.hashes.push(hash);
            self.counts.push(amount);
            let key = key.to_owned();
            self.keys.push(Counted { key, error: 0 });
            return;
        }
        let least = self.counts.iter().min().copied().unwrap_or_default();
        if let Some(at) = self.counts.iter().position(|count| *count == least) {
            self.hashes[at] = hash;
            self.counts[at] = least.saturating_add(amount);
            let place = &mut self.keys[at];
            place.key.clear();
            place.key.push_str(key);
            place.error = least;
        }
    }

    /// Returns the `most` most frequent keys in descending order, [masked](mask) unless `show_keys`. Leaves out keys
    /// whose whole count may be an error.
    #[must_use]
    pub fn most(&self, most: usize, show_keys: bool) -> Vec<TopKey> {
        let all = self.keys.iter().zip(&self.counts);
        let mut all: Vec<_> = all.filter(|(it, count)| **count > it.error).collect();
        all.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.key.cmp(&b.key)));
        let top = all.into_iter().take(most).map(|(it, count)| TopKey {
            key: if show_keys {
                it.key.clone()
            } else {
                mask(&it.key)
            },
            count: *count,
            error: it.error,
        });
        top.collect()
    }
}

/// The stored beginning of a key.
pub(crate) fn bounded(key: &str) -> &str {
    let mut end = key.len().min(LONGEST);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    &key[..end]
}

/// Masks a key: its first one to four characters, and its length. An operator that knows the key can recognise it.
///
/// ```
/// assert_eq!(plimsoll_engine::mask("sk-live-51Hq9"), "sk-l… (13)");
/// assert_eq!(plimsoll_engine::mask("ab"), "a… (2)");
/// ```
#[must_use]
pub fn mask(key: &str) -> String {
    let length = key.chars().count();
    let shown: String = key.chars().take((length / 3).clamp(1, 4)).collect();
    format!("{shown}… ({length})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_keys_are_found_among_very_many() {
        let mut top = TopKeys::default();
        for round in 0_u32..20_000 {
            top.add(&format!("once {round}"), 1);
            if round % 20 == 0 {
                top.add("often", 1);
            }
            if round % 40 == 0 {
                top.add("less often", 1);
            }
        }
        assert_eq!(top.keys.len(), COUNTED);
        let most = top.most(2, true);
        assert_eq!(most[0].key, "often");
        assert_eq!(most[1].key, "less often");
        assert!(most[0].count >= 1000 && most[0].count - most[0].error <= 1000);
    }

    #[test]
    fn long_keys_are_cut_at_a_character() {
        let mut top = TopKeys::default();
        top.add(&"ä".repeat(64_000), 3);
        let most = top.most(1, true);
        assert!(most[0].key.len() <= LONGEST);
        assert_eq!(most[0].count, 3);
    }
}
