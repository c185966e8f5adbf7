use crate::Moment;

/// Equal spans of time, numbered from an origin.
///
/// Dividing a moment by the length is on the path of every decision, so the reciprocal is stored: two multiplications
/// instead of a division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Period {
    nanos: u64,
    /// ⌊(2^64 − 1) / nanos⌋
    reciprocal: u64,
}

impl Period {
    pub(super) const fn new(nanos: u64) -> Self {
        Self {
            nanos,
            reciprocal: u64::MAX / nanos,
        }
    }

    pub(super) const fn nanos(self) -> u64 {
        self.nanos
    }

    /// The number of the span that lies `elapsed` nanoseconds after the origin.
    pub(super) const fn index(self, elapsed: u64) -> u64 {
        let guess = ((elapsed as u128 * self.reciprocal as u128) >> 64) as u64;
        // The guess is never too high and at most 2 too low.
        let mut index = guess;
        let mut rest = elapsed - guess * self.nanos;
        while rest >= self.nanos {
            rest -= self.nanos;
            index += 1;
        }
        index
    }

    /// The start of span `index`.
    pub(super) fn start(self, origin: Moment, index: u64) -> Moment {
        origin.plus_nanos(self.nanos.saturating_mul(index))
    }
}
