//! The share of a member, in numbers that Envoy can read.

use std::time::Duration;

/// The nanotokens in a token.
pub(crate) const NANO: u64 = 1_000_000_000;
/// The intervals that are tried for a share, the most readable first.
const INTERVALS: [u32; 6] = [1, 10, 60, 600, 3600, 86_400];
/// An interval is accepted if the share is at most a hundredth below the target.
const FINE: u128 = 100;
/// Envoy refills a bucket at least once a year, whatever its configuration says.
const LONGEST: u32 = 365 * 86_400;

/// The share of a member: `tokens` in every interval, and at most `burst` at once.
///
/// Envoy refills continuously, regardless of the interval, reads only whole seconds of it, and counts in 32 bits, so a
/// share may be up to 1 % below its intended rate. [`Share::NONE`] refuses everything.
///
/// ```
/// use plimsoll::{Moment, Quota};
/// use plimsoll_quota::{Division, Share, Timing};
///
/// let mut division = Division::new(Quota::per_minute(30), 6, Timing::ENVOY, Moment::ORIGIN);
/// let member = division.join(Moment::ORIGIN);
/// assert_eq!(division.member(member).unwrap().share, Share::NONE);
///
/// // Half of 30 a minute, since other members may join at the same moment.
/// let share = division.pushes(Moment::ORIGIN)[0].share;
/// let per_second = share.tokens() as f64 / share.interval().as_secs_f64();
/// assert!(per_second <= 0.25 && share.burst() <= 6);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Share {
    tokens: u32,
    seconds: u32,
    burst: u32,
}

impl Share {
    /// The empty share, which refuses everything. Also the default.
    pub const NONE: Self = Self {
        tokens: 0,
        seconds: 0,
        burst: 0,
    };

    /// The largest share of at most `rate` nanotokens per second. Empty if `burst` is 0 or the rate is below a token a year.
    pub(crate) fn at_most(rate: u64, burst: u64) -> Self {
        let nano = u128::from(NANO);
        let within = |seconds: u32| u128::from(rate) * u128::from(seconds);
        let fine = INTERVALS.iter().copied().find(|&seconds| {
            let tokens = within(seconds);
            tokens >= nano && tokens % nano * FINE <= tokens
        });
        let seconds = fine.unwrap_or_else(|| match NANO.div_ceil(rate.max(1)) {
            // One token in several seconds.
            slow if slow > 86_400 => u32::try_from(slow).unwrap_or(u32::MAX),
            _ => 86_400,
        });
        let tokens = u32::try_from(within(seconds) / nano).unwrap_or(u32::MAX);
        let burst = u32::try_from(burst).unwrap_or(u32::MAX);
        if tokens == 0 || burst == 0 || seconds > LONGEST {
            return Self::NONE;
        }
        Self {
            tokens,
            seconds,
            burst,
        }
    }

    /// Returns the tokens of every interval.
    #[must_use]
    pub const fn tokens(self) -> u32 {
        self.tokens
    }

    /// Returns the interval, in whole seconds.
    #[must_use]
    pub const fn interval(self) -> Duration {
        Duration::from_secs(self.seconds as u64)
    }

    /// Returns the largest number of tokens that can be spent at once. 0 only in an empty share.
    #[must_use]
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// Returns whether the share is empty and refuses everything.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.burst == 0
    }

    /// Returns the rate in nanotokens per second, rounded up.
    #[must_use]
    pub fn rate(self) -> u64 {
        let nanos = u64::from(self.tokens).saturating_mul(NANO);
        nanos.div_ceil(u64::from(self.seconds.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(rate: u64, burst: u64) -> (u32, u32, u32) {
        let share = Share::at_most(rate, burst);
        (share.tokens, share.seconds, share.burst)
    }

    #[test]
    fn intervals_are_the_shortest_that_lose_little() {
        assert_eq!(numbers(100 * NANO, 5), (100, 1, 5));
        assert_eq!(numbers(3 * NANO, 5), (3, 1, 5));
        assert_eq!(numbers(NANO / 2, 5), (5, 10, 5));
        assert_eq!(numbers(13 * NANO + NANO / 3, 5), (133, 10, 5));
        assert_eq!(numbers(NANO / 60 + 1, 5), (1, 60, 5));
        assert_eq!(numbers(NANO / 61 + 1, 5), (59, 3600, 5));
        assert_eq!(numbers(NANO / 200_000 + 1, 5), (1, 199_961, 5));
    }

    #[test]
    fn no_share_is_more_than_what_it_was_made_of() {
        let mut rate = 1_u64;
        while rate < u64::MAX / 3 {
            let share = Share::at_most(rate, 1);
            assert!(share.rate() <= rate, "{rate}: {share:?}");
            let small = share.rate() < rate - rate / 100;
            assert!(
                !small || rate < NANO / 800 || share.tokens == u32::MAX,
                "{rate}: {share:?}"
            );
            rate = rate * 3 + 1;
        }
    }

    #[test]
    fn less_than_a_token_in_a_year_is_nothing() {
        assert_eq!(Share::at_most(31, 1), Share::NONE);
        assert_eq!(numbers(32, 1), (1, 31_250_000, 1));
        assert_eq!(Share::at_most(NANO, 0), Share::NONE);
        assert_eq!(Share::at_most(0, 1), Share::NONE);
    }
}
