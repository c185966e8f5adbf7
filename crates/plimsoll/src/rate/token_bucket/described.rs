//! What a bucket says about itself, for those who keep buckets elsewhere.

use std::time::Duration;

use super::{Supply, TokenBucket};
use crate::Quota;

impl TokenBucket {
    /// The most tokens it holds.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The tokens it starts with.
    #[must_use]
    pub const fn initial(&self) -> u32 {
        self.initial
    }

    /// Whether tokens drip in continuously; otherwise they arrive at the end of each period.
    #[must_use]
    pub const fn is_greedy(&self) -> bool {
        matches!(self.supply, Supply::Nanos | Supply::Greedy { .. })
    }

    /// What arrives in how much time. Of a greedy bucket in lowest terms: 1 in 10 ms, if it was made with 100 in a
    /// second.
    pub const fn refill(&self) -> Quota {
        match self.supply {
            Supply::Nanos => Quota::new(1, Duration::from_nanos(self.token)),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a divisor of a quota's units"
            )]
            Supply::Greedy { per_nano } => {
                Quota::new(per_nano as u32, Duration::from_nanos(self.token))
            }
            Supply::Interval { period, refill } => {
                Quota::new(refill, Duration::from_nanos(period.nanos()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_says_what_it_was_made_of() {
        let greedy = TokenBucket::per_second(100).with_burst(20).with_initial(7);
        assert_eq!((greedy.burst(), greedy.initial()), (20, 7));
        assert!(greedy.is_greedy());
        assert_eq!(greedy.refill(), Quota::new(1, Duration::from_millis(10)));

        let interval = TokenBucket::interval(Quota::per_hour(5000));
        assert!(!interval.is_greedy());
        assert_eq!(interval.refill(), Quota::per_hour(5000));
    }
}
