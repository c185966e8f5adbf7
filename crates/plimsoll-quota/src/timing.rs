//! The times of reports, messages and assignments.

use std::fmt;
use std::time::Duration;

/// The interval of reports, the longest delay of a message, and the lifetime of an assignment.
///
/// [`Timing::ENVOY`] is the default: Envoy reports every 5 s, regardless of its configuration; assignments last 15 s, three
/// reports.
///
/// ```
/// use plimsoll_quota::Timing;
/// use std::time::Duration;
///
/// let seconds = Duration::from_secs;
/// // Members that report every second may lose their share after 5 s of silence.
/// let fast = Timing::new(seconds(1), Duration::from_millis(200), seconds(5));
/// assert_eq!(fast.ttl(), seconds(5));
/// // One report must arrive before the assignment expires.
/// assert!(Timing::try_new(seconds(5), seconds(1), seconds(6)).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Timing {
    report: u64,
    settle: u64,
    ttl: u64,
}

impl Timing {
    /// Reports every 5 s, messages within 1 s, assignments for 15 s.
    pub const ENVOY: Self = Self {
        report: 5_000_000_000,
        settle: 1_000_000_000,
        ttl: 15_000_000_000,
    };

    /// Creates a timing.
    ///
    /// `report` is the interval of reports. `settle` is the longest time that a message takes, and that a member takes to drop an
    /// expired assignment. `ttl` is the lifetime of an assignment, in whole seconds, because Envoy reads no fractions.
    ///
    /// # Panics
    ///
    /// Panics if [`try_new`](Self::try_new) would return an error.
    #[track_caller]
    pub fn new(report: Duration, settle: Duration, ttl: Duration) -> Self {
        match Self::try_new(report, settle, ttl) {
            Ok(timing) => timing,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a timing from values that may be invalid. [`new`](Self::new) panics instead.
    ///
    /// # Errors
    ///
    /// Returns an error if `report` or `settle` is zero, or `ttl` is not in whole seconds, longer than a day, or not
    /// longer than `report` plus three times `settle`, so that a member that reports in time could lose its assignment.
    pub fn try_new(
        report: Duration,
        settle: Duration,
        ttl: Duration,
    ) -> Result<Self, InvalidTiming> {
        let fault = if report.is_zero() || settle.is_zero() {
            Some("expected reports and messages that take some time")
        } else if ttl.subsec_nanos() != 0 || ttl > Duration::from_secs(86_400) {
            Some("expected assignments that last whole seconds, and at most a day")
        } else if ttl <= report.saturating_add(settle.saturating_mul(3)) {
            Some(
                "expected assignments that last longer than from report to report, and three times what a message may take",
            )
        } else {
            None
        };
        match fault {
            Some(rule) => Err(InvalidTiming {
                rule,
                report,
                settle,
                ttl,
            }),
            None => Ok(Self {
                report: nanos(report),
                settle: nanos(settle),
                ttl: nanos(ttl),
            }),
        }
    }

    /// Returns the interval between two reports of a member.
    #[must_use]
    pub const fn report(self) -> Duration {
        Duration::from_nanos(self.report)
    }

    /// Returns the longest time that a message takes. A smaller share counts as in force only after this time and the
    /// next report.
    #[must_use]
    pub const fn settle(self) -> Duration {
        Duration::from_nanos(self.settle)
    }

    /// Returns the lifetime of an assignment: a member drops its share this long after the last push.
    #[must_use]
    pub const fn ttl(self) -> Duration {
        Duration::from_nanos(self.ttl)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::ENVOY
    }
}

/// Never overflows: all valid times are shorter than `ttl`, which is at most a day.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// An error of [`Timing::try_new`]. Its message has the three times and the condition that they do not meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidTiming {
    rule: &'static str,
    report: Duration,
    settle: Duration,
    ttl: Duration,
}

impl fmt::Display for InvalidTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            report,
            settle,
            ttl,
        } = self;
        write!(
            f,
            "reports every {report:?}, messages within {settle:?}, assignments for {ttl:?}: {rule}"
        )
    }
}

impl std::error::Error for InvalidTiming {}
