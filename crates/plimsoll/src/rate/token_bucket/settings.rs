//! The settings of a bucket, and their getters for stores outside of the process.

use std::time::Duration;

use super::{REACH, Supply, TokenBucket};
use crate::invalid::Unmet;
use crate::{InvalidLimit, Quota};

impl TokenBucket {
    /// Sets the maximum number of tokens, which is also the number at the start.
    ///
    /// The burst is the amount that may pass at once after idling; the rate does not change. A burst of 1 spaces grants
    /// evenly; a burst above the units of the quota accumulates the refill of several periods.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(TokenBucket::per_second(10).burst(1)).clock(time.clock()).build();
    /// gate.try_acquire(1)?;
    /// let denied = gate.try_acquire(1).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `burst` is 0.
    #[track_caller]
    pub const fn burst(self, burst: u64) -> Self {
        match self.checked_burst(burst) {
            Ok(bucket) => bucket,
            Err(unmet) => unmet.panic(),
        }
    }

    /// Like [`burst`](Self::burst), but returns an error instead of panicking. For a number from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if `burst` is 0.
    pub fn try_burst(self, burst: u64) -> Result<Self, InvalidLimit> {
        let bucket = self.checked_burst(burst);
        bucket.map_err(|unmet| unmet.with(burst))
    }

    const fn checked_burst(mut self, burst: u64) -> Result<Self, Unmet> {
        if burst == 0 {
            return Err(Unmet {
                field: "burst",
                rule: "at least 1",
                message: "a bucket must hold at least 1 token",
            });
        }
        self.burst = burst;
        self.initial = burst;
        if self.capacity() < REACH {
            #[expect(clippy::cast_possible_truncation, reason = "checked in the line above")]
            let short = self.capacity() as u64;
            self.short_capacity = short;
        } else {
            self.short_capacity = 0;
        }
        Ok(self)
    }

    /// Sets the number of tokens at the start. Default: the burst.
    ///
    /// A process that restarts often would grant a burst at each start; a bucket that starts empty grants only its rate
    /// from the beginning. With [many keys](crate::Keyed) and fewer tokens than the burst, no key is evicted before
    /// there are `max_keys`, because no used key ever equals a new one again.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(TokenBucket::per_second(10).initial(0)).clock(time.clock()).build();
    /// assert!(gate.try_acquire(1).is_err());
    /// time.advance(Duration::from_millis(100));
    /// assert!(gate.try_acquire(1).is_ok());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `initial` is above the burst.
    #[track_caller]
    pub const fn initial(self, initial: u64) -> Self {
        match self.checked_initial(initial) {
            Ok(bucket) => bucket,
            Err(unmet) => unmet.panic(),
        }
    }

    /// Like [`initial`](Self::initial), but returns an error instead of panicking. For a number from outside the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if `initial` is above the burst.
    pub fn try_initial(self, initial: u64) -> Result<Self, InvalidLimit> {
        let bucket = self.checked_initial(initial);
        bucket.map_err(|unmet| unmet.with(initial))
    }

    const fn checked_initial(mut self, initial: u64) -> Result<Self, Unmet> {
        if initial > self.burst {
            return Err(Unmet {
                field: "initial",
                rule: "at most the burst",
                message: "a bucket cannot start with more than its burst",
            });
        }
        self.initial = initial;
        Ok(self)
    }

    /// Returns the number of tokens at the start.
    #[must_use]
    pub const fn initial_tokens(&self) -> u64 {
        self.initial
    }

    /// Returns whether tokens are added continuously; otherwise they are added at the end of each period.
    #[must_use]
    pub const fn is_greedy(&self) -> bool {
        !matches!(self.supply, Supply::Interval { .. })
    }

    /// Returns the refill: tokens per period. For a greedy bucket in lowest terms: 1 in 10 ms, if it was built with 100
    /// per second.
    pub const fn refill(&self) -> Quota {
        match self.supply {
            Supply::Nanos { token } => Quota::new(1, Duration::from_nanos(token)),
            Supply::Greedy { token, per_nano } => Quota::new(per_nano, Duration::from_nanos(token)),
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
    use crate::Rule;

    #[test]
    fn a_bucket_says_what_it_was_made_of() {
        let greedy = TokenBucket::per_second(100).burst(20).initial(7);
        assert_eq!((greedy.limit(), greedy.initial_tokens()), (20, 7));
        assert!(greedy.is_greedy());
        assert_eq!(greedy.refill(), Quota::new(1, Duration::from_millis(10)));

        let interval = TokenBucket::interval(Quota::per_hour(5000));
        assert!(!interval.is_greedy());
        assert_eq!(interval.refill(), Quota::per_hour(5000));
    }
}
