//! The word of a key.

use std::num::NonZeroU64;

/// A word as it is kept: any but the greatest number, and never 0, so that a slot without an entry needs no room to
/// say so.
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
