//! The estimated demand of a member.

use std::time::Duration;

use plimsoll::Moment;

use crate::share::NANO;

/// The time constant of the decay of a demand: with reports every 5 s, it halves in three reports.
const SLOW: u64 = 20 * NANO;
/// Refused requests count up to this many times the share of a member, because clients that are refused try again.
const RETRIES: u64 = 4;
/// The shortest time over which a rate is measured.
const SHORTEST: u64 = NANO;

/// A report of a member: the requests that it admitted and refused since its last report.
///
/// A division estimates the demand of the member from it: the demand rises at once and falls by half in three reports. Refused
/// requests count up to four times the share, because clients that are refused try again.
///
/// ```
/// use plimsoll_quota::Usage;
/// use std::time::Duration;
///
/// // 120 requests admitted and 30 refused in 5 s: a demand of 30 requests per second.
/// let usage = Usage::new(120, 30, Duration::from_secs(5));
/// assert_eq!(usage.allowed + usage.denied, 150);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// The number of admitted requests.
    pub allowed: u64,
    /// The number of refused requests.
    pub denied: u64,
    /// The time since the last report, by the member's clock. Envoy truncates it to whole seconds, so it is used only for the first
    /// report.
    pub elapsed: Duration,
}

impl Usage {
    /// Creates a report of `allowed` admitted and `denied` refused requests in a time of `elapsed`.
    #[must_use]
    pub const fn new(allowed: u64, denied: u64, elapsed: Duration) -> Self {
        Self {
            allowed,
            denied,
            elapsed,
        }
    }
}

/// The demand of a member, in nanotokens per second. It rises at once, and falls slowly.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    rate: Option<u64>,
    /// The moment of the last report, and the usage since that covers too short a time to measure.
    at: Option<Moment>,
    seen: (u64, u64),
}

impl Demand {
    /// `None` before a report covers at least a second.
    pub(crate) const fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Adds a report. `fair` is the minimum that the member could have spent.
    pub(crate) fn report(&mut self, usage: Usage, fair: u64, now: Moment) {
        let time = match self.at {
            Some(at) => now.nanos_since(at),
            None if usage.elapsed.is_zero() => 0,
            // It was truncated to whole seconds.
            None => u64::try_from(usage.elapsed.as_nanos())
                .unwrap_or(u64::MAX)
                .saturating_add(NANO),
        };
        self.at.get_or_insert(now);
        self.seen.0 = self.seen.0.saturating_add(usage.allowed);
        self.seen.1 = self.seen.1.saturating_add(usage.denied);
        if time < SHORTEST {
            return;
        }
        let (allowed, denied) = std::mem::take(&mut self.seen);
        self.at = Some(now);
        let per_second = |count: u64| {
            let rate = u128::from(count) * u128::from(NANO) * u128::from(NANO) / u128::from(time);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let denied = per_second(denied).min(fair.saturating_mul(RETRIES));
        let seen = per_second(allowed).saturating_add(denied);
        self.rate = Some(match self.rate {
            Some(rate) if seen < rate => {
                let part = u128::from(rate - seen) * u128::from(time)
                    / (u128::from(time) + u128::from(SLOW));
                rate - u64::try_from(part).unwrap_or(u64::MAX)
            }
            _ => seen,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * NANO)
    }

    #[test]
    fn it_rises_at_once_and_falls_by_half_in_three_reports() {
        let mut demand = Demand::default();
        demand.report(Usage::new(1, 0, Duration::ZERO), NANO, at(0));
        assert_eq!(demand.rate(), None);
        demand.report(Usage::new(99, 0, FIVE), NANO, at(5));
        assert_eq!(demand.rate(), Some(20 * NANO));
        for report in 2..5 {
            demand.report(Usage::default(), NANO, at(5 * report));
        }
        assert_eq!(demand.rate(), Some(20 * NANO * 512 / 1000));
    }

    #[test]
    fn retries_do_not_count_without_bound() {
        let mut demand = Demand::default();
        demand.report(Usage::new(5, 1_000_000, FIVE), NANO, at(10));
        let within = 5 * NANO / 6 + 4 * NANO;
        assert_eq!(demand.rate(), Some(within));
        demand.report(Usage::new(5, 1_000_000, FIVE), 2 * NANO, at(15));
        assert_eq!(demand.rate(), Some(9 * NANO));
    }
}
