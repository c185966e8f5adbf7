//! # How it works
//!
//! The simplest smooth limiter stores the time of the last grant and makes the next caller wait until an interval after
//! that. It does not store how long it was idle before. But after an idle hour it should either allow a burst, because
//! there is room, or start carefully, because caches are cold. So idle time is stored as *permits*, up to a maximum,
//! and taking stored permits has a price of its own, in time.
//!
//! - Bursty: stored permits are free.
//! - Warm-up: the more permits are stored, the colder the system and the higher the price of each: the price falls in a
//!   straight line from `cold factor` intervals at the maximum to one interval at the threshold, and stays there.
//!   Taking several costs the area under that line.
//!
//! ```text
//!   price of a permit
//!    cold ┤                 ╱
//!         │              ╱
//!  stable ┤───────────╱
//!         └──────────┼─────┼── stored permits
//!                threshold max
//! ```
//!
//! The state is the time of the *next* permit instead of the last: a demand is granted at that time and moves it on by
//! its price. A caller never waits for its own cost; the next caller does. So a large demand is granted at once if the
//! time has come, and no cost is too large.
//!
//! Prices are computed in floating point and rounded to 2^-16 ns before they move the time, which is a whole number of
//! these units: sums are exact.

use std::time::Duration;

use super::parts::{moment, parts, to_nanos, to_parts, whole};
use crate::rule::Carry;
use crate::{InvalidLimit, Moment, Refusal, Rule, Unpacked};

/// A steady rate, where the cost of each demand delays the next one.
///
/// It grants any cost at once if the time of the next permit has come, and moves that time on by the price of the cost.
/// It remembers the stored permits and that time: 32 bytes. Choose it to space work evenly, or to [warm
/// up](Self::warm_up) after idling.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Smooth};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(Smooth::bursty(5.0, Duration::from_secs(1))).clock(time.clock()).build();
/// assert!(gate.try_acquire(10).is_ok());
/// let next = gate.reserve(1)?;
/// assert_eq!(next.wait(), Some(Duration::from_secs(2)));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
///
/// # How exact
///
/// Let u = 2^-53, the maximum relative error of a floating-point result.
///
/// - *The time.* The interval is one division, and the price of a permit that is not stored one product: together at
///   most 2u of the price, and 2^-17 ns when it is rounded. Sums are whole numbers. So after n demands with a total
///   price of T the time is off by at most 2u T + n 2^-17 ns: for 10^12 demands 7.7 ms, and a part in 4 * 10^15 of T.
/// - *Stored permits.* Idling divides and adds, taking subtracts: at most 3u of the maximum each time. After n times
///   they are off by at most 3u n of the maximum, which for 10^12 is 0.034 %. The error is 0 again once all are used or
///   all are stored, because both states are set and not computed.
/// - *Warm-up.* A stored permit costs at most the cold interval, and its price depends on the number of stored permits
///   by the slope: an error e of that number changes the price of a permit by at most e times the slope, and the price
///   itself is six operations.
///
/// `the_time_of_a_smooth_limit_stays_within_its_bound` holds the first, for ten million demands. Costs above 2^53 are rounded.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Smooth {
    profile: Profile,
    /// Nanoseconds from one permit to the next.
    interval: f64,
    /// The maximum number of stored permits.
    max: f64,
    /// Nanoseconds of idling that store a permit.
    cool: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Profile {
    Bursty {
        max_burst: f64,
    },
    WarmUp {
        warmup: f64,
        cold_factor: f64,
        threshold: f64,
        slope: f64,
    },
}

/// The state of a [`Smooth`] limit: the stored permits, and the time of the next.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stored {
    permits: f64,
    /// In parts of a nanosecond.
    next: u128,
}

/// In nanoseconds: about 3000 years.
const LONGEST_INTERVAL: f64 = 1e20;

impl Smooth {
    /// Creates a limit of `rate` permits a second; up to `max_burst` of idle time is stored as permits, which can be
    /// taken at once.
    ///
    /// It starts without stored permits. A demand delays the next one by its price. With [many keys](crate::Keyed),
    /// idle keys have stored permits, so no key is evicted before there are `max_keys`.
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not above 0 and at most 10^12.
    #[track_caller]
    pub fn bursty(rate: f64, max_burst: Duration) -> Self {
        unwrap(Self::try_bursty(rate, max_burst))
    }

    /// Like [`bursty`](Self::bursty), but returns an error instead of panicking. For a rate from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not above 0 and at most 10^12.
    pub fn try_bursty(rate: f64, max_burst: Duration) -> Result<Self, InvalidLimit> {
        let max_burst = max_burst.as_secs_f64() * 1e9;
        Self {
            profile: Profile::Bursty { max_burst },
            interval: 1.0,
            max: 0.0,
            cool: 1.0,
        }
        .try_rate(rate)
    }

    /// Creates a limit of `rate` permits a second once it is warm, which takes `warmup`. While it is cold, a permit
    /// takes `cold_factor` times as long; 3 is usual. A warm-up of zero stores no permits. A limit is cold at the
    /// start, and again after idling for the length of the warm-up.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Smooth};
    /// use std::time::Duration;
    ///
    /// let rule = Smooth::warm_up(1.0, Duration::from_secs(4), 3.0);
    /// let gate = Gate::builder(rule).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(1)?;
    /// let next = gate.try_acquire(1).unwrap_err().retry_after();
    /// assert!(next > Some(Duration::from_secs(1)), "a cold permit takes longer than a second");
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not above 0 and at most 10^12, or `cold_factor` is not 1 to 10^6.
    #[track_caller]
    pub fn warm_up(rate: f64, warmup: Duration, cold_factor: f64) -> Self {
        unwrap(Self::try_warm_up(rate, warmup, cold_factor))
    }

    /// Like [`warm_up`](Self::warm_up), but returns an error instead of panicking. For numbers from outside the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not above 0 and at most 10^12, or `cold_factor` is not 1 to 10^6.
    pub fn try_warm_up(
        rate: f64,
        warmup: Duration,
        cold_factor: f64,
    ) -> Result<Self, InvalidLimit> {
        if !(1.0..=1e6).contains(&cold_factor) {
            return Err(InvalidLimit::new(
                "cold_factor",
                cold_factor,
                "1 to 1000000",
            ));
        }
        let warmup = warmup.as_secs_f64() * 1e9;
        let profile = Profile::WarmUp {
            warmup,
            cold_factor,
            threshold: 0.0,
            slope: 0.0,
        };
        Self {
            profile,
            interval: 1.0,
            max: 0.0,
            cool: 1.0,
        }
        .try_rate(rate)
    }

    /// Returns the same limit at another rate, as an argument for [`replace`](crate::Gate::replace).
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not above 0 and at most 10^12.
    #[track_caller]
    pub fn rate(self, rate: f64) -> Self {
        unwrap(self.try_rate(rate))
    }

    /// Like [`rate`](Self::rate), but returns an error instead of panicking. For a rate from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not above 0 and at most 10^12.
    pub fn try_rate(mut self, rate: f64) -> Result<Self, InvalidLimit> {
        if !(rate > 0.0 && rate <= 1e12) {
            return Err(InvalidLimit::new("rate", rate, "above 0 and at most 10^12"));
        }
        // Later than any moment is late enough, and products of it stay finite.
        self.interval = (1e9 / rate).min(LONGEST_INTERVAL);
        match &mut self.profile {
            Profile::Bursty { max_burst } => {
                self.max = *max_burst / self.interval;
                self.cool = self.interval;
            }
            Profile::WarmUp {
                warmup,
                cold_factor,
                threshold,
                slope,
            } => {
                let cold = self.interval * *cold_factor;
                *threshold = 0.5 * *warmup / self.interval;
                self.max = *threshold + 2.0 * *warmup / (self.interval + cold);
                let above = self.max - *threshold;
                *slope = if above > 0.0 {
                    (cold - self.interval) / above
                } else {
                    0.0
                };
                self.cool = if self.max > 0.0 {
                    *warmup / self.max
                } else {
                    1.0
                };
            }
        }
        Ok(self)
    }

    /// The price in nanoseconds of taking `spent` of the `stored` permits.
    fn price_of_stored(&self, stored: f64, spent: f64) -> f64 {
        let Profile::WarmUp {
            threshold, slope, ..
        } = self.profile
        else {
            return 0.0;
        };
        let above = (stored - threshold).max(0.0);
        let dear = above.min(spent);
        let first = self.interval + above * slope;
        let last = self.interval + (above - dear) * slope;
        dear * (first + last) / 2.0 + self.interval * (spent - dear)
    }

    /// The state after idling until `now`.
    fn idled(&self, stored: Stored, now: u128) -> Stored {
        if now <= stored.next {
            return stored;
        }
        let idle = to_nanos(now - stored.next);
        Stored {
            permits: (stored.permits + idle / self.cool).min(self.max),
            next: now,
        }
    }

    /// Grants `cost` at the next time and moves it on.
    fn charge(&self, stored: Stored, cost: u64) -> Stored {
        let cost = cost as f64;
        let spent = cost.min(stored.permits);
        let price = self.price_of_stored(stored.permits, spent) + (cost - spent) * self.interval;
        Stored {
            permits: stored.permits - spent,
            next: stored.next.saturating_add(to_parts(price)),
        }
    }
}

impl Rule for Smooth {
    type State = Stored;
    type Fast = Unpacked;

    /// The price of stored permits depends on their number, and fractions of them are rounded.
    const EXACT_REFUNDS: bool = false;

    /// No cost is too large.
    fn limit(&self) -> u64 {
        u64::MAX
    }

    fn fresh(&self, now: Moment) -> Stored {
        Stored {
            permits: match self.profile {
                Profile::Bursty { .. } => 0.0,
                Profile::WarmUp { .. } => self.max,
            },
            next: parts(now),
        }
    }

    fn take(&self, stored: &mut Stored, now: Moment, cost: u64) -> Result<(), Refusal> {
        if stored.next > parts(now) {
            return Err(Refusal::until(moment(stored.next)));
        }
        *stored = self.charge(self.idled(*stored, parts(now)), cost);
        Ok(())
    }

    fn available(&self, stored: &Stored, now: Moment) -> u64 {
        if stored.next > parts(now) {
            return 0;
        }
        // The first caller is granted, however much is stored.
        whole(self.idled(*stored, parts(now)).permits.max(1.0))
    }

    /// The granted permits whose time has not passed yet.
    fn in_use(&self, stored: &Stored, now: Moment) -> u64 {
        let owed = to_nanos(stored.next.saturating_sub(parts(now)));
        whole((owed / self.interval).ceil())
    }

    fn refund(&self, stored: &mut Stored, now: Moment, taken: Moment, cost: u64) {
        let idled = self.idled(*stored, parts(now));
        let owed = idled.next.saturating_sub(parts(now));
        // Without the take, part of the refill since then may have found no room.
        let since = to_nanos(parts(now).saturating_sub(parts(taken))) / self.interval;
        let held = (cost as f64 - since).max(0.0);
        let refund = to_parts(held * self.interval).min(owed);
        let rest = held - to_nanos(refund) / self.interval;
        *stored = Stored {
            permits: (idled.permits + rest.max(0.0)).min(self.max),
            next: idled.next - refund,
        };
    }

    fn full_at(&self, stored: &Stored, now: Moment) -> Option<Moment> {
        let missing = (self.max - stored.permits).max(0.0) * self.cool;
        Some(moment(stored.next.saturating_add(to_parts(missing))).max(now))
    }

    fn evictable_from(&self, stored: &Stored, now: Moment) -> Option<Moment> {
        let is_as_new_when_full = match self.profile {
            // A new limit stores nothing, and every idle moment makes this one better than new.
            Profile::Bursty { .. } => self.max == 0.0,
            Profile::WarmUp { .. } => true,
        };
        if !is_as_new_when_full {
            return Some(Moment::NEVER);
        }
        let mut from = self.full_at(stored, now)?;
        // Idle time is divided with rounding, so the last part of a permit may come a little later.
        let mut step = 1;
        while from < Moment::NEVER && self.idled(*stored, parts(from)).permits < self.max {
            from = from.plus_nanos(step);
            step *= 2;
        }
        Some(from)
    }

    fn book(&self, stored: &Stored, now: Moment, cost: u64) -> Option<(Stored, Moment)> {
        let idled = self.idled(*stored, parts(now));
        Some((self.charge(idled, cost), moment(idled.next)))
    }

    fn has_one_limit(&self) -> bool {
        false
    }

    /// Time that is owed is carried over, whatever happens to the stored permits.
    fn adopt(&self, old: &Self, stored: &Stored, now: Moment, carry: Carry) -> Stored {
        let idled = old.idled(*stored, parts(now));
        let fresh = self.fresh(now);
        let permits = match carry {
            Carry::Reset => return fresh,
            _ if old.max == 0.0 => fresh.permits,
            Carry::AsIs => idled.permits.min(self.max),
            Carry::Used => (self.max - (old.max - idled.permits)).max(0.0),
            Carry::Proportional => idled.permits * self.max / old.max,
        };
        Stored { permits, ..idled }
    }
}

#[track_caller]
fn unwrap(smooth: Result<Smooth, InvalidLimit>) -> Smooth {
    match smooth {
        Ok(smooth) => smooth,
        Err(invalid) => panic!("{invalid}"),
    }
}
