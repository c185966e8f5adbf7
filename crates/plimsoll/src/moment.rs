use std::time::Duration;

/// A point in time: nanoseconds since the origin of the [`Clock`](crate::Clock) it was read from.
///
/// Algorithms work on moments only. Arithmetic saturates: a moment past the year 2600 is as good as
/// never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Moment(u64);

impl Moment {
    /// The origin of every clock.
    pub const ORIGIN: Self = Self(0);
    /// Later than anything that will ever happen.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The moment that lies `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to here, 0 if it is not earlier.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time from `earlier` to here, zero if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The moment `nanos` nanoseconds later.
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// The moment `span` later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        self.plus_nanos(saturating_nanos(span))
    }

    /// Whether this is a moment that will come.
    pub(crate) fn is_known(self) -> bool {
        self != Self::NEVER
    }
}

/// A duration in nanoseconds; 584 years stand for anything longer.
pub(crate) fn saturating_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
