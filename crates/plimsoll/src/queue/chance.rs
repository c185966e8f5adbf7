//! Random places in a queue.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::ticket::Status;
use super::waiters::{Link, Waiters};

/// Random numbers, by `SplitMix64`.
#[derive(Debug, Default)]
pub(super) struct Chance(Option<u64>);

impl Chance {
    /// A number below `bound`, which is at least 1. The first call seeds it.
    fn below(&mut self, bound: usize, seed: Option<u64>) -> usize {
        let state = self.0.get_or_insert_with(|| {
            // The hasher of the standard library is keyed by the randomness of the system.
            seed.unwrap_or_else(|| RandomState::new().build_hasher().finish())
        });
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        // The high half of a product: even for bounds that are no power of two, to within 2^-32 of a place.
        let wide = u128::from(mixed) * bound as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

/// The number of places that are tried before the list is walked.
const TRIES: usize = 16;

impl Waiters {
    /// The waiter behind which a new demand of `class` joins, if every place is as likely as any other: `None` for the front.
    ///
    /// Usually this reads one or two nodes of the arena. If few of its nodes are waiters, the list is short, and is
    /// walked.
    pub(super) fn random_place(&mut self, class: usize, seed: Option<u64>) -> Link {
        let count = self.lists[class].count;
        let place = self.chance.below(count + 1, seed);
        if place == count {
            return None;
        }
        for _ in 0..TRIES {
            let index = self.chance.below(self.nodes.len(), seed);
            let node = &self.nodes[index];
            if node.class == class && node.status == Status::Waiting {
                return u32::try_from(index).ok();
            }
        }
        let list = std::iter::successors(self.lists[class].oldest, |&at| {
            self.nodes[at as usize].newer
        });
        list.take(place + 1).last()
    }
}
