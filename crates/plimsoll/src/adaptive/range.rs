use crate::InvalidLimit;

/// Between what bounds a limit moves, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) min: u32,
    pub(super) initial: u32,
    pub(super) max: u32,
}

impl Range {
    /// Every bound at least 1, the maximum not below the minimum, the beginning between them.
    pub(super) fn check(self) -> Result<(), InvalidLimit> {
        self.check_ones()?;
        if self.max < self.min {
            return Err(InvalidLimit::new("max", self.max, "at least the minimum"));
        }
        self.check_initial()
    }

    pub(super) fn check_ones(self) -> Result<(), InvalidLimit> {
        let Self { min, initial, max } = self;
        at_least_one("min", min)?;
        at_least_one("initial", initial)?;
        at_least_one("max", max)
    }

    pub(super) fn check_initial(self) -> Result<(), InvalidLimit> {
        if (self.min..=self.max).contains(&self.initial) {
            return Ok(());
        }
        let rule = "from the minimum to the maximum";
        Err(InvalidLimit::new("initial", self.initial, rule))
    }

    /// The limit to say for an estimate. Whatever the estimate came to, it is within the bounds.
    #[inline]
    pub(super) fn whole(self, estimate: f64) -> u32 {
        floor(estimate).clamp(self.min, self.max)
    }
}

/// The methods of a builder that has a `range`, with what it is unless set.
macro_rules! range_setters {
    ($min:literal, $initial:literal, $max:literal, $most:literal) => {
        #[doc = concat!("The least the limit may be, ", $min, " unless set. At least 1.")]
        pub const fn min(mut self, min: u32) -> Self {
            self.range.min = min;
            self
        }

        #[doc = concat!("The limit at first, ", $initial, " unless set. From the minimum to the maximum.")]
        pub const fn initial(mut self, initial: u32) -> Self {
            self.range.initial = initial;
            self
        }

        #[doc = concat!("The most the limit may be, ", $max, " unless set. ", $most, ".")]
        pub const fn max(mut self, max: u32) -> Self {
            self.range.max = max;
            self
        }
    };
}
pub(super) use range_setters;

pub(super) fn at_least_one(field: &'static str, value: u32) -> Result<(), InvalidLimit> {
    if value == 0 {
        return Err(InvalidLimit::new(field, value, "at least 1"));
    }
    Ok(())
}

/// A weight for what is new beside what was: above 0, and at most all of it.
pub(super) fn check_smoothing(smoothing: f64) -> Result<(), InvalidLimit> {
    if smoothing > 0.0 && smoothing <= 1.0 {
        return Ok(());
    }
    let rule = "above 0 and at most 1";
    Err(InvalidLimit::new("smoothing", smoothing, rule))
}

/// The whole number below; 0 for what is no number or negative, the largest for what is larger.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a cast saturates, which is what is wanted"
)]
pub(super) const fn floor(number: f64) -> u32 {
    number as u32
}

/// The whole number above, as far as there is one.
#[inline]
pub(super) fn ceil(number: f64) -> u32 {
    let below = floor(number);
    below.saturating_add(u32::from(f64::from(below) < number))
}
