//! Choices that a seed repeats.

/// Xorshift: good enough to choose, small enough to read.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    pub(crate) fn cost(&mut self, most: u64) -> u64 {
        1 + self.below(most)
    }

    /// The place of one of so many.
    pub(crate) fn index(&mut self, bound: u64) -> usize {
        usize::try_from(self.below(bound)).expect("few")
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}
