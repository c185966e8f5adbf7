use std::fmt;

use super::range::Range;
use crate::InvalidLimit;

/// The settings of an algorithm: the bounds that all algorithms have, and the settings of the algorithm `A`.
///
/// Each algorithm starts from its published defaults, which its own `builder()` lists. [`build`](Self::build) checks
/// all settings and names the first that is invalid.
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
    /// The settings other than the bounds.
    type Own: Clone + fmt::Debug;

    /// Checks the settings.
    fn check(range: Range, own: &Self::Own) -> Result<(), InvalidLimit>;

    /// Builds the algorithm from checked settings.
    fn assemble(range: Range, own: Self::Own) -> Self;
}

impl<A: Tunable> Builder<A> {
    pub(super) const fn new((min, initial, max): (u64, u64, u64), own: A::Own) -> Self {
        let range = Range { min, initial, max };
        Self { range, own }
    }

    /// Sets the minimum of the limit. At least 1.
    pub const fn min(mut self, min: u64) -> Self {
        self.range.min = min;
        self
    }

    /// Sets the initial limit, from the minimum to the maximum.
    pub const fn initial(mut self, initial: u64) -> Self {
        self.range.initial = initial;
        self
    }

    /// Sets the maximum of the limit. At least the minimum.
    pub const fn max(mut self, max: u64) -> Self {
        self.range.max = max;
        self
    }

    /// Builds the algorithm.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is outside the range that its method documents.
    pub fn build(self) -> Result<A, InvalidLimit> {
        A::check(self.range, &self.own)?;
        Ok(self.unchecked())
    }

    pub(super) fn unchecked(self) -> A {
        A::assemble(self.range, self.own)
    }
}

// Derived impls would require the same traits of the algorithm.

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
