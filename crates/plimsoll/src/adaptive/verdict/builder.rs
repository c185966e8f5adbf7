use super::Verdict;
use crate::InvalidLimit;

/// Bounds of a [`Verdict`]. See [`Verdict::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct VerdictBuilder {
    initial: u32,
    min: u32,
    max: u32,
}

impl VerdictBuilder {
    pub(super) const fn new() -> Self {
        Self {
            initial: 20,
            min: 1,
            max: 1_000,
        }
    }

    /// Starts with this limit instead of 20. It is left within a few windows if it is wrong.
    pub const fn initial(mut self, initial: u32) -> Self {
        self.initial = initial;
        self
    }

    /// Never goes below this limit, by default 1.
    pub const fn min(mut self, min: u32) -> Self {
        self.min = min;
        self
    }

    /// Never goes above this limit, by default 1000.
    pub const fn max(mut self, max: u32) -> Self {
        self.max = max;
        self
    }

    /// Builds the algorithm.
    ///
    /// # Errors
    ///
    /// If `min` is 0, `max` is below `min`, or `initial` lies outside of both.
    pub fn build(self) -> Result<Verdict, InvalidLimit> {
        if self.min == 0 {
            return Err(InvalidLimit::new("min", self.min, "at least 1"));
        }
        if self.max < self.min {
            return Err(InvalidLimit::new("max", self.max, "at least `min`"));
        }
        if self.initial < self.min || self.initial > self.max {
            let rule = "at least `min` and at most `max`";
            return Err(InvalidLimit::new("initial", self.initial, rule));
        }
        Ok(Verdict::within(self.initial, self.min, self.max))
    }
}
