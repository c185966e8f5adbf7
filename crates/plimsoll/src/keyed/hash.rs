//! The hasher of keys.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::{FoldHasher, SeedableRandomState};

/// The default hasher of a [`Keyed`](crate::Keyed) limit: fast, and seeded from the operating system's randomness.
///
/// It is not designed to resist an attacker who measures response times, and need not be: a table with more collisions
/// than chance explains switches to [`RandomState`].
///
/// Set another one with [`KeyedBuilder::hasher`](crate::KeyedBuilder::hasher) if keys are trusted and already well
/// distributed, or if hashes must be the same in every run:
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
/// use std::hash::{BuildHasherDefault, DefaultHasher};
///
/// let rule = TokenBucket::per_second(2);
/// let fixed = BuildHasherDefault::<DefaultHasher>::default();
/// let per_id = Keyed::<u64, _>::builder(rule).hasher(fixed).build();
/// assert!(per_id.try_acquire(&7, 1).is_ok());
/// ```
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
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0.build_hasher())
    }
}

/// The hasher that [`KeyHash`] builds.
#[derive(Clone)]
pub struct KeyHasher(FoldHasher<'static>);

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

/// Forwards every method: the defaults of most would hash bytes.
macro_rules! forward {
    ($($write:ident: $number:ty),*) => {
        impl Hasher for KeyHasher {
            #[inline(always)]
            fn finish(&self) -> u64 {
                self.0.finish()
            }

            #[inline(always)]
            fn write(&mut self, bytes: &[u8]) {
                self.0.write(bytes);
            }

            $(#[inline(always)]
            fn $write(&mut self, number: $number) {
                self.0.$write(number);
            })*
        }
    };
}

forward!(
    write_u8: u8,
    write_u16: u16,
    write_u32: u32,
    write_u64: u64,
    write_u128: u128,
    write_usize: usize
);

fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}
