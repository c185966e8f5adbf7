//! Keys that all hash alike do not make a keyed limit slow.

use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher};

use plimsoll::{Keyed, Quota, TokenBucket};

thread_local! {
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

/// A key that knows how often one of its kind was compared.
#[derive(Clone, Copy, Debug)]
struct Counted(u32);

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0 == other.0
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// The hasher of somebody who has found out how to make all keys collide: `blind` bits of the hash are the same
/// for all of them.
#[derive(Clone, Copy, Debug)]
struct Broken {
    blind: u32,
}

struct BrokenHasher(u64, u32);

impl BuildHasher for Broken {
    type Hasher = BrokenHasher;

    fn build_hasher(&self) -> BrokenHasher {
        BrokenHasher(0, self.blind)
    }
}

impl Hasher for BrokenHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.0 ^= self.0 >> 29;
        }
    }

    fn finish(&self) -> u64 {
        self.0.checked_shl(self.1).unwrap_or(0)
    }
}

#[test]
fn keys_that_all_collide_are_still_told_apart_quickly() {
    const KEYS: u32 = 20_000;
    // Collisions of whole hashes, and of the bits that choose a shard and a place in it.
    for blind in [64, 56] {
        let keyed: Keyed<Counted, _, _> = Keyed::builder(TokenBucket::greedy(Quota::per_hour(2)))
            .hasher(Broken { blind })
            .build();
        COMPARISONS.set(0);
        for round in 0..3 {
            for key in 0..KEYS {
                let answer = keyed.try_acquire(&Counted(key), 1);
                assert_eq!(answer.is_ok(), round < 2, "key {key} in round {round}");
            }
        }
        let each = COMPARISONS.get() / u64::from(KEYS);
        assert!(each < 40, "{each} comparisons for each of {KEYS} keys");
        assert_eq!(keyed.len(), KEYS as usize);
    }
}
