//! How much a member would spend.

use std::time::Duration;

use plimsoll::Moment;

use crate::share::NANO;

/// The time constant of the way down: with reports every 5 s, half of the way takes three of them.
const SLOW: u64 = 20 * NANO;
/// Refused requests count up to so many times what a member could have spent: those who are refused ask again.
const RETRIES: u64 = 4;
/// The shortest time that says something about a rate.
const SHORTEST: u64 = NANO;

/// What a member reports of a time: requests that it let through, and requests that it refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Requests that were let through.
    pub allowed: u64,
    /// Requests that were refused.
    pub denied: u64,
    /// What the member says of the time since its report before. Envoy cuts it to whole seconds, so it counts only where
    /// there was no report before.
    pub elapsed: Duration,
}

impl Usage {
    /// So many let through and refused in a time.
    #[must_use]
    pub const fn new(allowed: u64, denied: u64, elapsed: Duration) -> Self {
        Self {
            allowed,
            denied,
            elapsed,
        }
    }
}

/// How much a member would spend, in nanotokens per second: up at once, down slowly.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    rate: Option<u64>,
    /// When the last report came, and what was seen since that was too short to say anything.
    at: Option<Moment>,
    seen: (u64, u64),
}

impl Demand {
    /// Nothing, unless it is known.
    pub(crate) const fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// `fair` is what the member could have spent at least.
    pub(crate) fn report(&mut self, usage: Usage, fair: u64, now: Moment) {
        let time = match self.at {
            Some(at) => now.nanos_since(at),
            None if usage.elapsed.is_zero() => 0,
            // It was cut to whole seconds.
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
