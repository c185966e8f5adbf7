use crate::InvalidLimit;

/// The bounds and the initial value of a limit.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub(super) min: u64,
    pub(super) initial: u64,
    pub(super) max: u64,
}

impl Range {
    /// Checks that every bound is at least 1, the maximum is not below the minimum, and the initial limit is between
    /// them.
    pub(super) fn check(self) -> Result<(), InvalidLimit> {
        self.check_ones()?;
        let Self { min, initial, max } = self;
        if max < min {
            return Err(InvalidLimit::new("max", max, "at least the minimum"));
        }
        if !(min..=max).contains(&initial) {
            let rule = "from the minimum to the maximum";
            return Err(InvalidLimit::new("initial", initial, rule));
        }
        Ok(())
    }

    fn check_ones(self) -> Result<(), InvalidLimit> {
        at_least_one("min", self.min)?;
        at_least_one("initial", self.initial)?;
        at_least_one("max", self.max)
    }

    /// Like [`check`](Self::check), with a maximum above the minimum and a queue that grows with the limit.
    pub(super) fn check_with_queue(
        self,
        tolerance: f64,
        (min_queue, initial_queue): (u64, u64),
    ) -> Result<(), InvalidLimit> {
        self.check_ones()?;
        at_least_one("min_queue", min_queue)?;
        at_least_one("initial_queue", initial_queue)?;
        if !(tolerance > 1.0 && tolerance.is_finite()) {
            return Err(InvalidLimit::new(
                "tolerance",
                tolerance,
                "a number above 1",
            ));
        }
        if self.max <= self.min {
            return Err(InvalidLimit::new("max", self.max, "above the minimum"));
        }
        self.check()?;
        if initial_queue < min_queue {
            let rule = "at least the minimum queue";
            return Err(InvalidLimit::new("initial_queue", initial_queue, rule));
        }
        Ok(())
    }

    /// The whole limit for an estimate, clamped to the bounds.
    #[inline]
    pub(super) fn whole(self, estimate: f64) -> u64 {
        floor(estimate).clamp(self.min, self.max)
    }
}

pub(super) fn at_least_one(field: &'static str, value: u64) -> Result<(), InvalidLimit> {
    if value == 0 {
        return Err(InvalidLimit::new(field, value, "at least 1"));
    }
    Ok(())
}

/// Checks a smoothing factor: above 0 and at most 1.
pub(super) fn check_smoothing(smoothing: f64) -> Result<(), InvalidLimit> {
    if smoothing > 0.0 && smoothing <= 1.0 {
        return Ok(());
    }
    let rule = "above 0 and at most 1";
    Err(InvalidLimit::new("smoothing", smoothing, rule))
}

/// Rounds down; 0 for NaN and negative numbers, `u64::MAX` for larger ones.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a cast saturates, which is what is wanted"
)]
pub(super) const fn floor(number: f64) -> u64 {
    number as u64
}

/// Rounds up; saturates.
#[inline]
pub(super) fn ceil(number: f64) -> u64 {
    let below = floor(number);
    below.saturating_add(u64::from((below as f64) < number))
}

/// The square root, rounded up.
pub(super) const fn root_rounded_up(limit: u64) -> u64 {
    let root = limit.isqrt();
    root + (root * root < limit) as u64
}

#[cfg(test)]
mod tests {
    use super::root_rounded_up;

    #[test]
    fn roots_are_rounded_up_up_to_the_largest_limit() {
        for (limit, root) in [
            (1, 1),
            (2, 2),
            (4, 2),
            (5, 3),
            (20, 5),
            (100, 10),
            (101, 11),
            (1028, 33),
            (u64::from(u32::MAX), 1 << 16),
            (u64::MAX, 1 << 32),
        ] {
            assert_eq!(root_rounded_up(limit), root);
        }
    }
}
