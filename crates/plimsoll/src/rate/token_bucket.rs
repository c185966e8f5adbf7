//! # How it works
//!
//! The simplest bucket stores its number of tokens and the moment of the last update: two numbers that must change
//! together, and a multiplication that loses a fraction each time. This one stores instead *the point at which the
//! bucket will be full again*. Taking moves that point away, time brings it nearer, and an idle bucket needs no update:
//! a point in the past is a full bucket, a point further away than the burst is a debt. One number, one comparison.
//!
//! The point is measured on a *supply scale*, in whole numbers chosen so that nothing is ever rounded.
//!
//! - Greedy, `refill` tokens per `every`, reduced to `q` tokens per `p` nanoseconds: a nanosecond
//!   supplies `q`, a token costs `p`. The supply at elapsed time t is t·q.
//! - Interval: the supply at elapsed time t is ⌊t / every⌋·refill, and a token costs 1. The supply is a staircase;
//!   everything else is the same.
//!
//! With `full` the remembered point and S(t) the supply, a cost c fits iff
//! max(full, S(t)) + c·token ≤ S(t) + burst·token, and becomes due at the least t with
//! S(t) ≥ full + (c − burst)·token.
//!
//! A word keeps only the low 63 bits of the point: the point is never far from the current supply, which restores the
//! rest. If a nanosecond supplies 1, the whole point fits for 292 years, and nothing has to be restored. Decisions by
//! the word alone are made in 64 bits, wrapping around; only buckets too deep for that use 128.

mod changed;
mod packed;
mod settings;
mod settled;

use super::arithmetic::{div_ceil, gcd};
use super::period::Period;
use crate::{Carry, Moment, Quota, Refusal, Rule};

/// A bucket of tokens that is refilled at a steady rate and holds at most `burst`.
///
/// # What it grants
///
/// A demand takes its cost in tokens. After idling, up to the burst passes at once; after that, the rate of the refill.
/// Over any span of time it grants at most the burst plus the refill of that span. [Greedy](Self::greedy) buckets gain
/// each token when it is due, [interval](Self::interval) buckets all tokens of a period at its end.
///
/// # What it remembers
///
/// The point in time at which the bucket will be full, in 8 bytes. Decisions take no lock, and use whole numbers that
/// are never rounded. A point further away than the burst is a debt, so tokens can be [reserved](crate::Gate::reserve)
/// and [charged](crate::Gate::charge) beyond those in the bucket.
///
/// # The formula
///
/// A greedy bucket of `refill` tokens in `every` that held `h` tokens at one moment holds min(burst, h + t · refill /
/// every) after the time t, and a demand of cost c is refused until that is c. The retry time of a refusal is exactly
/// (c − h) · every / refill, rounded up to the next nanosecond; a caller that waits for it is granted.
///
/// # When to choose it
///
/// By default. Choose a rule with windows if a contract is stated in windows.
///
/// # At the edges
///
/// - A cost above the burst is never granted, and is refused with [`Reason::TooLarge`](crate::Reason::TooLarge).
/// - A cost of 0 takes nothing, and is granted when 1 would be.
/// - A bucket that was charged into debt refuses everything until the refill has paid the debt.
/// - An idle bucket needs no work: its fill level is computed when it is next asked.
///
/// ```
/// use plimsoll::{Gate, Quota, TokenBucket};
///
/// // 100 tokens a second, of which 20 may be saved up.
/// const API: TokenBucket = TokenBucket::per_second(100).burst(20);
/// let gate = Gate::new(API);
/// assert!(gate.try_acquire(20).is_ok());
/// assert!(gate.try_acquire(20).is_err());
///
/// // 5000 an hour, handed out all at once at the end of each hour.
/// let hourly = TokenBucket::interval(Quota::per_hour(5000));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TokenBucket {
    burst: u64,
    initial: u64,
    supply: Supply,
    /// The whole bucket on the supply scale, or 0 if the bucket is too deep to be decided in 64 bits.
    short_capacity: u64,
    origin: Moment,
}

/// How the supply grows with time, and what a token costs on its scale.
#[derive(Clone, Copy, Debug)]
enum Supply {
    /// By 1 every nanosecond: for all rates with a whole number of nanoseconds between two tokens.
    Nanos { token: u64 },
    /// By `per_nano` every nanosecond.
    Greedy { token: u64, per_nano: u64 },
    /// By `refill` at the end of every period. A token costs 1.
    Interval { period: Period, refill: u64 },
}

/// The state of a [`TokenBucket`]: the point of the supply at which it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Filling {
    full: u128,
    origin: Moment,
}

/// The farthest a packed point may lie from the supply.
const REACH: u128 = 1 << 61;

impl TokenBucket {
    /// Creates a bucket that adds tokens continuously at the quota's rate. The burst is the quota's units.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Quota, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let rule = TokenBucket::greedy(Quota::per_minute(60));
    /// let gate = Gate::builder(rule).clock(time.clock()).build();
    /// gate.try_acquire(60)?;
    /// time.advance(Duration::from_millis(2500));
    /// assert_eq!(gate.snapshot().available(), 2, "one token a second");
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn greedy(quota: Quota) -> Self {
        let shared = gcd(quota.units(), quota.nanos());
        let token = quota.nanos() / shared;
        let supply = match quota.units() / shared {
            1 => Supply::Nanos { token },
            per_nano => Supply::Greedy { token, per_nano },
        };
        Self::with_supply(quota.units(), supply)
    }

    /// Creates a bucket that adds all of the quota's units at the end of each of its periods, counted from the start of
    /// the limiter. The burst is the quota's units.
    pub const fn interval(quota: Quota) -> Self {
        let supply = Supply::Interval {
            period: Period::new(quota.nanos()),
            refill: quota.units(),
        };
        Self::with_supply(quota.units(), supply)
    }

    const fn with_supply(burst: u64, supply: Supply) -> Self {
        Self {
            burst,
            initial: burst,
            supply,
            short_capacity: 0,
            origin: Moment::ORIGIN,
        }
        .burst(burst)
    }

    /// Creates a greedy bucket of `tokens` per second.
    ///
    /// # Panics
    ///
    /// Panics if `tokens` is 0.
    #[track_caller]
    pub const fn per_second(tokens: u64) -> Self {
        Self::greedy(Quota::per_second(tokens))
    }

    /// The whole bucket on the supply scale.
    const fn capacity(&self) -> u128 {
        self.token() as u128 * self.burst as u128
    }

    /// The cost of a token on the supply scale.
    #[inline]
    const fn token(&self) -> u64 {
        match self.supply {
            Supply::Nanos { token } | Supply::Greedy { token, .. } => token,
            Supply::Interval { .. } => 1,
        }
    }

    /// S(now).
    #[inline]
    fn supply(&self, origin: Moment, now: Moment) -> u128 {
        let elapsed = now.nanos_since(origin);
        match self.supply {
            Supply::Nanos { .. } => elapsed.into(),
            Supply::Greedy { per_nano, .. } => u128::from(elapsed) * u128::from(per_nano),
            Supply::Interval { period, refill } => {
                u128::from(period.index(elapsed)) * u128::from(refill)
            }
        }
    }

    /// The least moment at which the supply reaches `point`.
    #[inline]
    fn reached(&self, origin: Moment, point: u128) -> Moment {
        let nanos = match self.supply {
            Supply::Nanos { .. } => u64::try_from(point).unwrap_or(u64::MAX),
            Supply::Greedy { per_nano, .. } => div_ceil(point, per_nano),
            Supply::Interval { period, refill } => {
                div_ceil(point, refill).saturating_mul(period.nanos())
            }
        };
        origin.plus_nanos(nanos)
    }

    #[inline]
    fn price(&self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.token())
    }
}

impl Rule for TokenBucket {
    type State = Filling;
    type Fast = Self;

    fn limit(&self) -> u64 {
        self.burst
    }

    fn began(&self) -> Moment {
        self.origin
    }

    fn begin(&mut self, start: Moment) {
        self.origin = start;
    }

    fn fresh(&self, now: Moment) -> Filling {
        // A greedy supply has no phase, so it keeps its origin and stays packable after a reset.
        let origin = match self.supply {
            Supply::Nanos { .. } | Supply::Greedy { .. } => self.origin.min(now),
            Supply::Interval { .. } => now,
        };
        let missing = self.price(self.burst - self.initial);
        Filling {
            full: self.supply(origin, now).saturating_add(missing),
            origin,
        }
    }

    fn fresh_key(&self, now: Moment) -> Filling {
        Filling {
            full: self
                .supply(self.origin, now)
                .saturating_add(self.price(self.burst - self.initial)),
            origin: self.origin,
        }
    }

    #[inline]
    fn take(&self, state: &mut Filling, now: Moment, cost: u64) -> Result<(), Refusal> {
        let supply = self.supply(state.origin, now);
        let Some(full) = state.full.max(supply).checked_add(self.price(cost)) else {
            // The supply never gets there.
            return Err(Refusal::until(Moment::NEVER));
        };
        if full <= supply.saturating_add(self.capacity()) {
            state.full = full;
            Ok(())
        } else {
            Err(Refusal::until(
                self.reached(state.origin, full - self.capacity()),
            ))
        }
    }

    fn available(&self, state: &Filling, now: Moment) -> u64 {
        let missing = state.full.saturating_sub(self.supply(state.origin, now));
        let held = self.capacity().saturating_sub(missing) / u128::from(self.token());
        u64::try_from(held).unwrap_or(self.burst)
    }

    fn in_use(&self, state: &Filling, now: Moment) -> u64 {
        let missing = state.full.saturating_sub(self.supply(state.origin, now));
        div_ceil(missing, self.token())
    }

    fn refund(&self, state: &mut Filling, now: Moment, taken: Moment, cost: u64) {
        let supply = self.supply(state.origin, now);
        // Without the take, the refill since then might have found no room.
        let since = supply - self.supply(state.origin, taken.min(now));
        let back = self.price(cost).saturating_sub(since);
        state.full = state.full.saturating_sub(back).max(supply);
    }

    fn settle(&self, state: &mut Filling, now: Moment, taken: Moment, costs: (u64, u64)) {
        self.settled(state, now, taken, costs);
    }

    fn full_at(&self, state: &Filling, _now: Moment) -> Option<Moment> {
        Some(self.reached(state.origin, state.full))
    }

    fn overflows_from(&self, state: &Filling, _now: Moment) -> Moment {
        // The last moment at which the supply grows no further than to the point, where the bucket is full: mostly it is beyond
        // that when it has reached it.
        let nanos = match self.supply {
            Supply::Nanos { .. } => state.full,
            Supply::Greedy { per_nano, .. } => state.full / u128::from(per_nano),
            Supply::Interval { period, refill } => {
                (state.full / u128::from(refill)).saturating_mul(period.nanos().into())
            }
        };
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        state.origin.plus_nanos(nanos)
    }

    fn book(&self, state: &Filling, now: Moment, cost: u64) -> Option<(Filling, Moment)> {
        let supply = self.supply(state.origin, now);
        let full = state.full.max(supply).saturating_add(self.price(cost));
        let ready = self.reached(state.origin, full.saturating_sub(self.capacity()));
        Some((Filling { full, ..*state }, ready.max(now)))
    }

    fn evictable_from(&self, state: &Filling, now: Moment) -> Option<Moment> {
        // A full bucket is better than a new one that starts below its burst, and refills of another phase differ.
        let is_as_new =
            self.initial == self.burst && (state.origin == self.origin || self.is_greedy());
        if is_as_new {
            self.full_at(state, now)
        } else {
            Some(Moment::NEVER)
        }
    }

    fn window(&self, _now: Moment) -> Option<std::time::Duration> {
        let refilled = self.reached(Moment::ORIGIN, self.capacity());
        Some(refilled.since(Moment::ORIGIN))
    }

    fn adopt(&self, old: &Self, filling: &Filling, now: Moment, carry: Carry) -> Filling {
        self.adopted(old, filling, now, carry)
    }
}
