//! The policies of handlers, and the tiers they are rounded up to.

use plimsoll::{InvalidLimit, PenaltyBucket, TokenBucket};

/// RPS tiers are 2^0 … 2^7, burst tiers 2^0 … 2^6.
const RPS_TIERS: u8 = 8;
const BURST_TIERS: u8 = 7;

/// The number of different limits.
pub(crate) const TIERS: usize = RPS_TIERS as usize * BURST_TIERS as usize;

/// The policy of a handler: the requests per second that each address may send it, and the burst.
///
/// Both are rounded up to a power of two, the rate to at most 128 and the burst to at most 64, so that handlers with
/// similar policies share one table of subjects:
///
/// | declared | applied |
/// |---|---|
/// | `per_second(1.0)` | 1 per second, burst 1 |
/// | `per_second(5.0).burst(2.5)` | 8 per second, burst 4 |
/// | `per_second(200.0).burst(100.0)` | 128 per second, burst 64 |
/// | a rate of 0 or less, −∞ included | unlimited, whatever the burst |
/// | a burst of 0 or less, −∞ included | always refused |
/// | +∞ | the highest tier |
/// | NaN | an error of [`PoliciesBuilder::build`](crate::PoliciesBuilder::build) |
///
/// ```
/// use plimsoll_policy::{Policies, Policy};
///
/// // A `const`: it can stand in a table of handlers.
/// const SEARCH: Policy = Policy::per_second(5.0).burst(2.5);
///
/// let policies = Policies::builder().handler(1_u32, SEARCH).build()?;
/// let _ = policies.evaluate(1_u32, std::net::Ipv4Addr::LOCALHOST)?;
/// let report = policies.report();
/// assert_eq!((report.rows()[0].rps(), report.rows()[0].burst()), (8, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use]
pub struct Policy {
    requests_per_second: f64,
    burst: f64,
}

impl Policy {
    /// Creates a policy of `requests` per second, with a burst of 1. 0 or less admits everything.
    pub const fn per_second(requests: f64) -> Self {
        Self {
            requests_per_second: requests,
            burst: 1.0,
        }
    }

    /// Creates a policy that admits everything, like a rate of 0.
    pub const fn unlimited() -> Self {
        Self::per_second(0.0)
    }

    /// Sets the burst: the number of requests that are admitted at once after a pause. 0 or less refuses everything.
    /// Default: 1.
    pub const fn burst(mut self, burst: f64) -> Self {
        self.burst = burst;
        self
    }

    /// The policy, rounded up to a tier.
    pub(crate) fn effective(self) -> Result<Effective, InvalidLimit> {
        let number = |field, value: f64| {
            if value.is_nan() {
                return Err(InvalidLimit::new(field, value, "a number"));
            }
            Ok(value)
        };
        let rate = number("requests_per_second", self.requests_per_second)?;
        let burst = number("burst", self.burst)?;
        Ok(if rate <= 0.0 {
            Effective::Unlimited
        } else if burst <= 0.0 {
            Effective::Refused
        } else {
            Effective::Limited(Tier {
                rps: rounded_up(rate, RPS_TIERS),
                burst: rounded_up(burst, BURST_TIERS),
            })
        })
    }
}

/// The exponent of the least tier that is not below `wanted`, or of the highest.
fn rounded_up(wanted: f64, tiers: u8) -> u8 {
    (0..tiers)
        .find(|exponent| f64::from(1_u32 << exponent) >= wanted)
        .unwrap_or(tiers - 1)
}

/// The effect of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effective {
    Unlimited,
    Refused,
    Limited(Tier),
}

/// One of the 56 limits, as exponents of two. Ordered by rate, then by burst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tier {
    rps: u8,
    burst: u8,
}

impl Tier {
    /// Its index among all tiers.
    pub(crate) fn index(self) -> usize {
        usize::from(self.rps) * usize::from(BURST_TIERS) + usize::from(self.burst)
    }

    pub(crate) fn rps(self) -> u64 {
        1 << self.rps
    }

    pub(crate) fn burst(self) -> u64 {
        1 << self.burst
    }

    /// The distance between two tiers.
    pub(crate) fn distance(self, other: Self) -> u64 {
        self.rps().abs_diff(other.rps()) + self.burst().abs_diff(other.burst())
    }

    /// The bucket of a subject, which starts with `initial` tokens, or full if it holds fewer.
    pub(crate) fn bucket(self, initial: u64) -> PenaltyBucket {
        let bucket = TokenBucket::per_second(self.rps()).burst(self.burst());
        PenaltyBucket::new(bucket.initial(initial.min(self.burst())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective(rate: f64, burst: f64) -> Effective {
        Policy::per_second(rate).burst(burst).effective().unwrap()
    }

    #[test]
    fn what_is_declared_is_rounded_up_to_a_tier() {
        let cases = [
            ((1.0, 1.0), (1, 1)),
            ((5.0, 2.5), (8, 4)),
            ((200.0, 100.0), (128, 64)),
            ((f64::MIN_POSITIVE, f64::MIN_POSITIVE), (1, 1)),
            ((1.000_001, 1.000_001), (2, 2)),
            ((64.0, 32.0), (64, 32)),
            ((64.5, 32.5), (128, 64)),
            ((128.0, 64.0), (128, 64)),
            ((f64::INFINITY, f64::INFINITY), (128, 64)),
            ((f64::MAX, 1.0), (128, 1)),
        ];
        for ((rate, burst), expected) in cases {
            let Effective::Limited(tier) = effective(rate, burst) else {
                panic!("({rate}, {burst}) is limited");
            };
            assert_eq!((tier.rps(), tier.burst()), expected, "({rate}, {burst})");
        }
    }

    #[test]
    fn no_rate_is_no_limit_and_no_burst_is_refused() {
        for none in [0.0, -0.0, -1.0, f64::NEG_INFINITY] {
            assert_eq!(effective(none, 1.0), Effective::Unlimited);
            assert_eq!(
                effective(none, none),
                Effective::Unlimited,
                "the rate decides"
            );
            assert_eq!(effective(1.0, none), Effective::Refused);
        }
    }

    #[test]
    fn what_is_not_a_number_is_no_limit_anybody_meant() {
        let invalid = Policy::per_second(f64::NAN).effective().unwrap_err();
        assert_eq!(
            invalid.to_string(),
            "`requests_per_second` is NaN: expected a number"
        );
        let invalid = Policy::per_second(1.0).burst(f64::NAN).effective();
        assert_eq!(invalid.unwrap_err().field(), "burst");
    }

    #[test]
    fn every_tier_has_a_place_of_its_own() {
        let tiers = (0..RPS_TIERS).flat_map(|rps| (0..BURST_TIERS).map(move |burst| (rps, burst)));
        let places: Vec<usize> = tiers
            .map(|(rps, burst)| Tier { rps, burst }.index())
            .collect();
        assert_eq!(places, (0..TIERS).collect::<Vec<_>>());
    }
}
