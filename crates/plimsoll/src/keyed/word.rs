//! The word of a key.

use std::num::NonZeroU64;

/// A word as it is stored: any number but the largest, and never 0, so that an empty slot needs no extra room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(NonZeroU64);

impl Word {
    #[inline]
    pub(super) fn new(word: u64) -> Self {
        Self(NonZeroU64::new(!word).unwrap_or(NonZeroU64::MIN))
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        !self.0.get()
    }

    #[inline]
    pub(super) fn set(&mut self, word: u64) {
        *self = Self::new(word);
    }
}
