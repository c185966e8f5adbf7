use std::fmt;

use super::range::Range;
use crate::InvalidLimit;

/// Settings of an algorithm: the bounds that all algorithms have, and those of the algorithm `A`.
///
/// Every algorithm starts from its published defaults, which its own `builder()` lists. Nothing is checked before
/// [`build`](Self::build), which names the first setting that does not fit.
///
/// ```
/// use plimsoll::adaptive::{Aimd, Limit};
///
/// let aimd = Aimd::builder().min(1).initial(10).max(100).backoff(0.8).build()?;
/// assert_eq!(aimd.limit(), 10);
///
/// let invalid = Aimd::builder().min(50).initial(10).build().unwrap_err();
/// assert_eq!(invalid.to_string(), "`initial` is 10: expected from the minimum to the maximum");
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[must_use]
pub struct Builder<A: Tunable> {
    pub(super) range: Range,
    pub(super) own: A::Own,
}

/// An algorithm with settings.
pub trait Tunable: Sized {
    /// The settings beside the bounds.
    type Own: Clone + fmt::Debug;

    /// Whether the settings fit.
    fn check(range: Range, own: &Self::Own) -> Result<(), InvalidLimit>;

    /// The algorithm with settings that fit.
    fn assemble(range: Range, own: Self::Own) -> Self;
}

impl<A: Tunable> Builder<A> {
    pub(super) const fn new((min, initial, max): (u64, u64, u64), own: A::Own) -> Self {
        let range = Range { min, initial, max };
        Self { range, own }
    }

    /// The least that the limit may be. At least 1.
    pub const fn min(mut self, min: u64) -> Self {
        self.range.min = min;
        self
    }

    /// The limit to begin with. From the minimum to the maximum.
    pub const fn initial(mut self, initial: u64) -> Self {
        self.range.initial = initial;
        self
    }

    /// The most that the limit may be. At least the minimum.
    pub const fn max(mut self, max: u64) -> Self {
        self.range.max = max;
        self
    }

    /// Builds the algorithm.
    ///
    /// # Errors
    ///
    /// If a setting is outside of what its method allows.
    pub fn build(self) -> Result<A, InvalidLimit> {
        A::check(self.range, &self.own)?;
        Ok(self.unchecked())
    }

    pub(super) fn unchecked(self) -> A {
        A::assemble(self.range, self.own)
    }
}

// Derived, they would ask the same of the algorithm.

impl<A: Tunable> Clone for Builder<A> {
    fn clone(&self) -> Self {
        Self {
            range: self.range,
            own: self.own.clone(),
        }
    }
}

impl<A: Tunable> fmt::Debug for Builder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("range", &self.range)
            .field("own", &self.own)
            .finish()
    }
}
