//! How keys are hashed.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::{FoldHasher, SeedableRandomState};

/// The hasher of a [`Keyed`](crate::Keyed) limit unless it is given another: fast, and keyed with randomness of
/// the operating system.
///
/// It is not made to withstand somebody who learns from how long answers take. It need not: a table that sees
/// more collisions than chance allows goes on with [`RandomState`].
#[derive(Clone, Debug)]
pub struct KeyHash(SeedableRandomState);

impl Default for KeyHash {
    fn default() -> Self {
        static SECRET: OnceLock<SharedSeed> = OnceLock::new();
        let secret = SECRET.get_or_init(|| SharedSeed::from_u64(random()));
        Self(SeedableRandomState::with_seed(random(), secret))
    }
}

impl BuildHasher for KeyHash {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> FoldHasher<'static> {
        self.0.build_hasher()
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}
