use std::time::Duration;

/// A point in time: the nanoseconds since the origin of the [`Clock`](crate::Clock) that it was read from.
///
/// Rules compute with moments alone; they read no clock. Arithmetic saturates at the last moment, 584 years after the
/// origin, which means "never".
///
/// ```
/// use plimsoll::Moment;
/// use std::time::Duration;
///
/// let start = Moment::ORIGIN.plus(Duration::from_secs(1));
/// let end = start.plus_nanos(500);
/// assert_eq!(end.since(start), Duration::from_nanos(500));
/// assert_eq!(start.since(end), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Moment(u64);

impl Moment {
    /// The origin of every clock.
    pub const ORIGIN: Self = Self(0);
    /// The last moment, which means "never".
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// Creates the moment `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the nanoseconds from `earlier` to this moment; 0 if `earlier` is not earlier.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time from `earlier` to this moment; zero if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// Returns the moment `nanos` nanoseconds later.
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Returns the moment `span` later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        self.plus_nanos(saturating_nanos(span))
    }

    /// Whether this is not [`NEVER`](Self::NEVER).
    pub(crate) fn is_known(self) -> bool {
        self != Self::NEVER
    }
}

/// A duration in nanoseconds, at most `u64::MAX` (584 years).
pub(crate) fn saturating_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
