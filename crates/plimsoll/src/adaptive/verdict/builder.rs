use super::Verdict;
use crate::InvalidLimit;
use crate::adaptive::range::{Range, range_setters};

/// Bounds of a [`Verdict`]. See [`Verdict::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct VerdictBuilder {
    range: Range,
}

impl VerdictBuilder {
    pub(super) const fn new() -> Self {
        Self {
            range: Range {
                min: 1,
                initial: 20,
                max: 1_000,
            },
        }
    }

    range_setters!(1, 20, 1000, "At least the minimum");

    /// Builds the algorithm.
    ///
    /// # Errors
    ///
    /// If `min` is 0, `max` is below `min`, or `initial` lies outside of both.
    pub fn build(self) -> Result<Verdict, InvalidLimit> {
        let Range { min, initial, max } = self.range;
        self.range.check()?;
        Ok(Verdict::within(initial, min, max))
    }
}
