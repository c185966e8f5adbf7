use std::time::Duration;

use super::token_bucket::{Filling, TokenBucket};
use crate::invalid::Unmet;
use crate::{Carry, InvalidLimit, Moment, Reason, Refusal, Rule, Unpacked};

/// A token bucket that locks out callers that keep asking.
///
/// # What it grants
///
/// The same as its bucket, except during a lockout. A refusal counts as one in a row if it comes within the [soft
/// window](Self::soft_window) of the previous one. The `soft_limit`th in a row starts a [lockout](Self::lockout):
/// nothing is available until it ends, however full the bucket is, and reservations wait for its end. A grant or a
/// reservation resets the count. Refusals during a lockout do not extend it.
///
/// # What it remembers
///
/// The bucket, the number of refusals in a row, the last of them and the end of the lockout: 64 bytes.
///
/// # When to choose it
///
/// Against clients that retry in a loop. With one limit per client, their refusals become cheap for the server and
/// costly for them. A [`SlidingLog`](crate::SlidingLog) that counts refusals is a milder form.
///
/// ```
/// use plimsoll::{Gate, PenaltyBucket, Reason, TokenBucket};
/// use std::time::Duration;
///
/// let rule = PenaltyBucket::new(TokenBucket::per_second(1)).lockout(2, Duration::from_secs(30));
/// let gate = Gate::new(rule);
/// assert!(gate.try_acquire(1).is_ok());
/// assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::SoftThrottle);
/// assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::LockedOut);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PenaltyBucket {
    bucket: TokenBucket,
    soft_limit: u32,
    soft_window: Duration,
    lockout: Duration,
}

/// The state of a [`PenaltyBucket`]: its fill level, its refusals, and the end of the lockout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Penalty {
    filling: Filling,
    refusals: u32,
    last_refusal: Moment,
    locked_until: Moment,
}

impl PenaltyBucket {
    /// Creates a penalty bucket without a lockout: it works like `bucket`, and its refusals have
    /// [`Reason::SoftThrottle`](crate::Reason::SoftThrottle).
    pub const fn new(bucket: TokenBucket) -> Self {
        Self {
            bucket,
            soft_limit: 3,
            soft_window: Duration::from_secs(5),
            lockout: Duration::ZERO,
        }
    }

    /// Sets the lockout, which starts at the `soft_limit`th refusal in a row. A lockout of zero, the default, never
    /// locks.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, PenaltyBucket, Reason, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let rule = PenaltyBucket::new(TokenBucket::per_second(1)).lockout(1, Duration::from_secs(30));
    /// let gate = Gate::builder(rule).clock(time.clock()).build();
    /// gate.try_acquire(1)?;
    /// assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::LockedOut);
    /// // The bucket is full again, and the limit still locked.
    /// time.advance(Duration::from_secs(29));
    /// let denied = gate.try_acquire(1).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `soft_limit` is 0: no caller is locked out before its first refusal.
    #[track_caller]
    pub const fn lockout(self, soft_limit: u32, lockout: Duration) -> Self {
        match self.checked_lockout(soft_limit, lockout) {
            Ok(bucket) => bucket,
            Err(unmet) => unmet.panic(),
        }
    }

    /// Like [`lockout`](Self::lockout), but returns an error instead of panicking. For a number from outside the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if `soft_limit` is 0: no caller is locked out before its first refusal.
    pub fn try_lockout(self, soft_limit: u32, lockout: Duration) -> Result<Self, InvalidLimit> {
        let bucket = self.checked_lockout(soft_limit, lockout);
        bucket.map_err(|unmet| unmet.with(soft_limit))
    }

    const fn checked_lockout(mut self, soft_limit: u32, lockout: Duration) -> Result<Self, Unmet> {
        if soft_limit == 0 {
            return Err(Unmet {
                field: "soft_limit",
                rule: "at least 1",
                message: "a lockout needs at least 1 refusal",
            });
        }
        self.soft_limit = soft_limit;
        self.lockout = lockout;
        Ok(self)
    }

    /// Sets the longest time between two refusals in a row. Default: 5 seconds. A later refusal starts a new row.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, PenaltyBucket, Reason, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let rule = PenaltyBucket::new(TokenBucket::per_second(1).burst(10))
    ///     .lockout(2, Duration::from_secs(30))
    ///     .soft_window(Duration::from_secs(1));
    /// let gate = Gate::builder(rule).clock(time.clock()).build();
    /// gate.try_acquire(10)?;
    /// assert!(gate.try_acquire(10).is_err());
    /// time.advance(Duration::from_secs(2));
    /// // Too late after the first refusal to count with it.
    /// assert_eq!(gate.try_acquire(10).unwrap_err().reason(), Reason::SoftThrottle);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn soft_window(mut self, soft_window: Duration) -> Self {
        self.soft_window = soft_window;
        self
    }

    /// Returns the moment from which a state is at least as good as a new one. It may be better, if new ones are not
    /// full.
    #[doc(hidden)]
    pub fn no_worse_than_new_from(&self, penalty: &Penalty, now: Moment) -> Option<Moment> {
        let from = self.bucket.full_at(&penalty.filling, now)?;
        Some(from.max(self.unburdened_from(penalty)))
    }

    /// The moment from which neither refusals nor a lockout count.
    fn unburdened_from(&self, penalty: &Penalty) -> Moment {
        let counted = penalty.refusals > 0;
        let refusals = penalty.last_refusal.plus(self.soft_window).plus_nanos(1);
        let refusals = if counted { refusals } else { Moment::ORIGIN };
        refusals.max(penalty.locked_until)
    }

    fn locked_out(&self, penalty: &Penalty, now: Moment, cost: u64) -> Refusal {
        let token = self.bucket.peek(&penalty.filling, now, cost);
        let ready_at = token.err().map_or(now, |refusal| refusal.ready_at);
        Refusal::until(ready_at.max(penalty.locked_until)).with_reason(Reason::LockedOut)
    }
}

impl Rule for PenaltyBucket {
    type State = Penalty;
    type Fast = Unpacked;

    const REMEMBERS_REFUSALS: bool = true;
    /// Refunds do not restore the count of refusals that a grant clears.
    const EXACT_REFUNDS: bool = false;

    fn limit(&self) -> u64 {
        self.bucket.limit()
    }

    fn began(&self) -> Moment {
        self.bucket.began()
    }

    fn begin(&mut self, start: Moment) {
        self.bucket.begin(start);
    }

    fn fresh(&self, now: Moment) -> Penalty {
        Penalty {
            filling: self.bucket.fresh(now),
            refusals: 0,
            last_refusal: Moment::ORIGIN,
            locked_until: Moment::ORIGIN,
        }
    }

    fn fresh_key(&self, now: Moment) -> Penalty {
        Penalty {
            filling: self.bucket.fresh_key(now),
            ..self.fresh(now)
        }
    }

    fn evictable_from(&self, penalty: &Penalty, now: Moment) -> Option<Moment> {
        let from = self.bucket.evictable_from(&penalty.filling, now)?;
        Some(from.max(self.unburdened_from(penalty)))
    }

    fn take(&self, penalty: &mut Penalty, now: Moment, cost: u64) -> Result<(), Refusal> {
        if now < penalty.locked_until {
            return Err(self.locked_out(penalty, now, cost));
        }
        let taken = self.bucket.take(&mut penalty.filling, now, cost);
        taken.map_err(|refusal| refusal.with_reason(Reason::SoftThrottle))?;
        penalty.refusals = 0;
        Ok(())
    }

    /// Refusals during a lockout do not extend it, for whatever reason.
    fn refused(&self, penalty: &mut Penalty, now: Moment, cost: u64, refusal: Refusal) -> Refusal {
        if now < penalty.locked_until {
            // This includes a demand that found no room in the queue.
            let ready_at = refusal.ready_at.max(penalty.locked_until);
            return Refusal {
                ready_at,
                ..refusal
            }
            .with_reason(Reason::LockedOut);
        }
        if cost == 0 {
            return refusal;
        }
        let in_a_row = penalty.refusals > 0 && now.since(penalty.last_refusal) <= self.soft_window;
        penalty.refusals = if in_a_row {
            penalty.refusals.saturating_add(1)
        } else {
            1
        };
        penalty.last_refusal = penalty.last_refusal.max(now);
        if penalty.refusals < self.soft_limit || self.lockout.is_zero() {
            return refusal;
        }
        penalty.refusals = 0;
        penalty.locked_until = now.plus(self.lockout);
        Refusal {
            ready_at: refusal.ready_at.max(penalty.locked_until),
            ..refusal
        }
        .with_reason(Reason::LockedOut)
    }

    fn available(&self, penalty: &Penalty, now: Moment) -> u64 {
        if now < penalty.locked_until {
            return 0;
        }
        self.remaining(penalty, now)
    }

    /// The whole tokens in the bucket, also during a lockout.
    fn remaining(&self, penalty: &Penalty, now: Moment) -> u64 {
        self.bucket.available(&penalty.filling, now)
    }

    fn in_use(&self, penalty: &Penalty, now: Moment) -> u64 {
        self.bucket.in_use(&penalty.filling, now)
    }

    fn refund(&self, penalty: &mut Penalty, now: Moment, taken: Moment, cost: u64) {
        self.bucket.refund(&mut penalty.filling, now, taken, cost);
    }

    fn full_at(&self, penalty: &Penalty, now: Moment) -> Option<Moment> {
        let full_at = self.bucket.full_at(&penalty.filling, now)?;
        Some(full_at.max(penalty.locked_until))
    }

    /// A reservation is a grant, so it resets the count of refusals; and it is not used before a lockout ends.
    fn book(&self, penalty: &Penalty, now: Moment, cost: u64) -> Option<(Penalty, Moment)> {
        let (filling, ready_at) = self.bucket.book(&penalty.filling, now, cost)?;
        let booked = Penalty {
            filling,
            refusals: 0,
            ..*penalty
        };
        Some((booked, ready_at.max(penalty.locked_until)))
    }

    /// A charge grants nothing, so refusals stay counted and a lockout stands.
    fn charge(&self, penalty: &mut Penalty, now: Moment, cost: u64) {
        self.bucket.charge(&mut penalty.filling, now, cost);
    }

    /// A lockout stays.
    fn adopt(&self, old: &Self, penalty: &Penalty, now: Moment, carry: Carry) -> Penalty {
        if carry == Carry::Reset {
            return self.fresh(now);
        }
        let filling = self.bucket.adopt(&old.bucket, &penalty.filling, now, carry);
        Penalty {
            filling,
            ..*penalty
        }
    }
}
