use std::time::Duration;

use crate::InvalidLimit;
use crate::invalid::Unmet;

/// A number of units per period.
///
/// ```
/// use plimsoll::Quota;
/// use std::time::Duration;
///
/// const API: Quota = Quota::per_second(100);
/// let from_a_file = Quota::try_new(5000, Duration::from_secs(3600))?;
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Unchecked", into = "Unchecked"))]
#[must_use]
pub struct Quota {
    units: u64,
    nanos: u64,
}

/// The longest period: a little over 146 years. Sums of two periods still fit a moment.
const LONGEST: u64 = 1 << 62;

impl Quota {
    /// Creates a quota of `units` per `period`.
    ///
    /// # Panics
    ///
    /// Panics if `units` is 0, or `period` is zero or longer than 146 years. [`try_new`](Self::try_new) returns an
    /// error instead.
    #[track_caller]
    pub const fn new(units: u64, period: Duration) -> Self {
        match Self::checked(units, period) {
            Ok(quota) => quota,
            Err(unmet) => unmet.panic(),
        }
    }

    /// Like [`new`](Self::new), but returns an error instead of panicking. For numbers from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if `units` is 0, or `period` is zero or longer than 146 years.
    pub fn try_new(units: u64, period: Duration) -> Result<Self, InvalidLimit> {
        Self::checked(units, period).map_err(|unmet| match unmet.field {
            "limit" => unmet.with(units),
            _ => unmet.with(format_args!("{period:?}")),
        })
    }

    const fn checked(units: u64, period: Duration) -> Result<Self, Unmet> {
        if units == 0 {
            return Err(Unmet {
                field: "limit",
                rule: "at least 1",
                message: "a quota needs at least 1 unit",
            });
        }
        let nanos = period.as_nanos();
        if nanos == 0 {
            return Err(Unmet {
                field: "period",
                rule: "at least 1ns",
                message: "the period of a quota must not be zero",
            });
        }
        if nanos > LONGEST as u128 {
            return Err(Unmet {
                field: "period",
                rule: "at most 146 years",
                message: "the period of a quota must be at most 146 years",
            });
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked in the lines above"
        )]
        let nanos = nanos as u64;
        Ok(Self { units, nanos })
    }

    /// Creates a quota of `units` per second.
    ///
    /// # Panics
    ///
    /// Panics if `units` is 0.
    #[track_caller]
    pub const fn per_second(units: u64) -> Self {
        Self::new(units, Duration::from_secs(1))
    }

    /// Creates a quota of `units` per minute.
    ///
    /// # Panics
    ///
    /// Panics if `units` is 0.
    #[track_caller]
    pub const fn per_minute(units: u64) -> Self {
        Self::new(units, Duration::from_secs(60))
    }

    /// Creates a quota of `units` per hour.
    ///
    /// # Panics
    ///
    /// Panics if `units` is 0.
    #[track_caller]
    pub const fn per_hour(units: u64) -> Self {
        Self::new(units, Duration::from_secs(3600))
    }

    /// Creates a quota of `units` per day of 24 hours.
    ///
    /// # Panics
    ///
    /// Panics if `units` is 0.
    #[track_caller]
    pub const fn per_day(units: u64) -> Self {
        Self::new(units, Duration::from_secs(86_400))
    }

    /// Creates a quota of `units` per week of 7 days of 24 hours.
    ///
    /// # Panics
    ///
    /// Panics if `units` is 0.
    #[track_caller]
    pub const fn per_week(units: u64) -> Self {
        Self::new(units, Duration::from_secs(7 * 86_400))
    }

    /// Returns the number of units.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.units
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.nanos
    }
}

/// The serialized form of a [`Quota`]: reading one checks it as [`Quota::try_new`] does.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Unchecked {
    units: u64,
    period: Duration,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Quota {
    type Error = InvalidLimit;

    fn try_from(form: Unchecked) -> Result<Self, InvalidLimit> {
        Self::try_new(form.units, form.period)
    }
}

#[cfg(feature = "serde")]
impl From<Quota> for Unchecked {
    fn from(quota: Quota) -> Self {
        Self {
            units: quota.units,
            period: Duration::from_nanos(quota.nanos),
        }
    }
}
