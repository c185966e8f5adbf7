use std::sync::atomic::{AtomicU64, Ordering};

use crate::invalid::Unmet;
use crate::{Carry, InvalidLimit, Moment, Packed, PackedTake, Refusal, Rule};

/// A limit on the number of permits in use at once. Permits are returned when they are dropped.
///
/// # What it grants
///
/// As many permits at once as the limit allows. Time refills nothing: the moment at which a permit will be returned is
/// unknown, so a refusal has no retry time. To wait for a permit, add a [`Queue`](crate::Queue).
///
/// # What it remembers
///
/// The number of permits left, in 8 bytes. A decision takes no lock and reads no clock. With a limit of 2^40 or more,
/// it is 16 bytes behind the lock.
///
/// # When to choose it
///
/// To protect a resource that has a capacity and no rate: connections, workers, memory. Where the right limit is
/// unknown or changes, an [`Adaptive`](crate::adaptive::Adaptive) limit finds it. [`Gate::resize`](crate::Gate::resize)
/// changes the limit by hand.
///
/// ```
/// use plimsoll::{Concurrency, Gate, Queue};
///
/// // Ten at once, and a hundred more may wait.
/// let gate = Gate::builder(Concurrency::new(10)).queue(Queue::fifo(100)).build();
/// let permit = gate.try_acquire(3)?;
/// assert_eq!(gate.snapshot().in_use(), 3);
/// drop(permit);
/// assert_eq!(gate.snapshot().in_use(), 0);
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Concurrency {
    /// Changed by `resize` under the gate's lock. A reader that races with it sees the limit before or after; grants
    /// are decided by the state alone.
    limit: AtomicU64,
}

/// The state of a [`Concurrency`] limit: the number of permits left, below 0 after the limit has shrunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    left: i128,
}

/// Added to `left` in a word, so that a debt is still a positive number. Larger limits and debts have no word.
const BIAS: u64 = 1 << 40;

impl Concurrency {
    /// Creates a limit of `limit` permits at once.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0.
    #[track_caller]
    pub const fn new(limit: u64) -> Self {
        match Self::checked(limit) {
            Ok(concurrency) => concurrency,
            Err(unmet) => unmet.panic(),
        }
    }

    /// Like [`new`](Self::new), but returns an error instead of panicking. For a number from outside the program.
    ///
    /// ```
    /// use plimsoll::Concurrency;
    ///
    /// assert!(Concurrency::try_new(10).is_ok());
    /// assert_eq!(Concurrency::try_new(0).unwrap_err().field(), "limit");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `limit` is 0.
    pub fn try_new(limit: u64) -> Result<Self, InvalidLimit> {
        Self::checked(limit).map_err(|unmet| unmet.with(limit))
    }

    const fn checked(limit: u64) -> Result<Self, Unmet> {
        if limit == 0 {
            return Err(Unmet {
                field: "limit",
                rule: "at least 1",
                message: "a concurrency limit must be at least 1",
            });
        }
        Ok(Self {
            limit: AtomicU64::new(limit),
        })
    }

    /// Changes the limit. Permits in use stay in use: after a shrink nothing is granted until enough are returned.
    pub(crate) fn resize(&self, state: &mut Slots, limit: u64) {
        let old = self.limit.swap(limit, Ordering::Relaxed);
        state.left += i128::from(limit) - i128::from(old);
    }
}

impl Clone for Concurrency {
    fn clone(&self) -> Self {
        Self::new(self.limit())
    }
}

impl Rule for Concurrency {
    type State = Slots;
    type Fast = Self;

    const RETURNS_PERMITS: bool = true;

    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    fn fresh(&self, _now: Moment) -> Slots {
        Slots {
            left: i128::from(self.limit()),
        }
    }

    #[inline]
    fn take(&self, state: &mut Slots, _now: Moment, cost: u64) -> Result<(), Refusal> {
        let left = state.left - i128::from(cost);
        if left < 0 {
            return Err(Refusal::until_returned());
        }
        state.left = left;
        Ok(())
    }

    fn occupy(&self, state: &mut Slots, _now: Moment, cost: u64) {
        state.left -= i128::from(cost);
    }

    fn available(&self, state: &Slots, _now: Moment) -> u64 {
        u64::try_from(state.left.max(0)).unwrap_or(u64::MAX)
    }

    fn in_use(&self, state: &Slots, _now: Moment) -> u64 {
        let used = i128::from(self.limit()) - state.left;
        u64::try_from(used.max(0)).unwrap_or(u64::MAX)
    }

    fn refund(&self, state: &mut Slots, _now: Moment, _taken: Moment, cost: u64) {
        state.left += i128::from(cost);
    }

    fn add(&self, state: &mut Slots, _now: Moment, amount: u64) {
        state.left = (state.left + i128::from(amount)).min(i128::from(self.limit()));
    }

    fn full_at(&self, state: &Slots, now: Moment) -> Option<Moment> {
        (state.left >= i128::from(self.limit())).then_some(now)
    }

    /// Permits in use stay in use, whatever `carry` says.
    fn adopt(&self, old: &Self, state: &Slots, _now: Moment, _carry: Carry) -> Slots {
        Slots {
            left: state.left + i128::from(self.limit()) - i128::from(old.limit()),
        }
    }
}

impl Packed<Self> for Concurrency {
    const TIMELESS: bool = true;

    #[inline]
    fn pack(rule: &Self, state: &Slots, _now: Moment) -> Option<u64> {
        let packable = state.left.unsigned_abs() < u128::from(BIAS) && rule.limit() < BIAS;
        let word = u64::try_from(state.left + i128::from(BIAS)).ok();
        word.filter(|_| packable)
    }

    #[inline]
    fn unpack(_rule: &Self, word: u64, _now: Moment) -> Slots {
        Slots {
            left: i128::from(word) - i128::from(BIAS),
        }
    }

    #[inline]
    fn take_packed(_rule: &Self, word: u64, _now: Moment, cost: u64) -> PackedTake {
        match word.checked_sub(cost) {
            Some(next @ BIAS..) => PackedTake::Taken(next),
            _ => PackedTake::Refused(Refusal::until_returned()),
        }
    }
}
