//! The word of a key.

use std::num::NonZeroU64;

/// Set in a word that holds a position instead of a state. The lower bits are then not 0.
pub(super) const WIDE: u64 = 1 << 63;

/// A word as it is stored: rotated by one bit, so that the lowest one says that it is a state. It is never 0, so that an empty slot
/// needs no extra room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(NonZeroU64);

impl Word {
    #[inline]
    pub(super) fn new(word: u64) -> Self {
        Self(NonZeroU64::new((word ^ WIDE).rotate_left(1)).unwrap_or(NonZeroU64::MIN))
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        self.0.get().rotate_right(1) ^ WIDE
    }

    #[inline]
    pub(super) fn set(&mut self, word: u64) {
        *self = Self::new(word);
    }

    /// The state, if it is one.
    #[inline]
    pub(super) fn state(self) -> Option<u64> {
        (self.0.get() & 1 == 1).then_some(self.0.get() >> 1)
    }

    /// Sets the word of a state, which is below 2^63.
    #[inline]
    pub(super) fn set_state(&mut self, word: u64) {
        self.0 = NonZeroU64::MIN | word << 1;
    }
}
