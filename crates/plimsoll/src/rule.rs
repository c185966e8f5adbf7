mod carry;
mod packed;
mod refusal;

use std::fmt;
use std::time::Duration;

use crate::Moment;
use crate::learning::Learning;

pub use carry::Carry;
pub use packed::{Packed, PackedTake, Unpacked};
pub use refusal::Refusal;

/// An algorithm: the state of a limiter, and its decisions.
///
/// A rule is pure. It has parameters and functions of a state, a moment and a cost; it owns no clock, takes no lock and
/// never waits. [`Gate`](crate::Gate) turns any rule into a limiter with a queue, reservations, refusals and totals;
/// [`Keyed`](crate::Keyed) turns it into a limit for each of many keys. So a new algorithm is one file that implements
/// the eight required items of this trait.
///
/// Moments may step back. A rule treats a moment before one that it has already seen as if no time had passed, and must
/// never grant more because of it.
///
/// # Example
///
/// The generic cell rate algorithm: a unit every `gap` nanoseconds, with a burst of `limit`. The state is the moment at
/// which everything is refilled.
///
/// ```
/// use plimsoll::{Gate, Moment, Queue, Refusal, Rule, Unpacked};
///
/// #[derive(Debug)]
/// struct Gcra {
///     limit: u64,
///     gap: u64,
/// }
///
/// impl Gcra {
///     fn span(&self, units: u64) -> u64 {
///         self.gap.saturating_mul(units)
///     }
/// }
///
/// impl Rule for Gcra {
///     type State = Moment;
///     type Fast = Unpacked;
///
///     fn limit(&self) -> u64 {
///         self.limit
///     }
///
///     fn fresh(&self, now: Moment) -> Moment {
///         now
///     }
///
///     fn take(&self, full: &mut Moment, now: Moment, cost: u64) -> Result<(), Refusal> {
///         let next = (*full).max(now).plus_nanos(self.span(cost));
///         let wait = next.nanos_since(now.plus_nanos(self.span(self.limit)));
///         if wait > 0 {
///             return Err(Refusal::until(now.plus_nanos(wait)));
///         }
///         *full = next;
///         Ok(())
///     }
///
///     fn available(&self, full: &Moment, now: Moment) -> u64 {
///         let left = self.span(self.limit).saturating_sub(full.nanos_since(now));
///         left / self.gap
///     }
///
///     fn refund(&self, full: &mut Moment, now: Moment, taken: Moment, cost: u64) {
///         // The refill since the take is not refunded.
///         let back = self.span(cost).saturating_sub(now.nanos_since(taken));
///         *full = Moment::from_nanos(full.as_nanos().saturating_sub(back)).max(now);
///     }
///
///     fn full_at(&self, full: &Moment, now: Moment) -> Option<Moment> {
///         Some((*full).max(now))
///     }
/// }
///
/// let gate = Gate::builder(Gcra { limit: 5, gap: 10_000_000 }).queue(Queue::fifo(100)).build();
/// assert!(gate.try_acquire(5).is_ok());
/// assert!(gate.try_acquire(5).is_err());
/// ```
///
/// Its state is a single number, so it could implement [`Packed`] in six more lines and be decided without a lock.
/// `tests/laws` of this crate has that form of it too, and the properties that every rule must have.
///
/// # Optional refinements
///
/// The other items have defaults that are correct for every rule, though not always as precise as a rule could be.
///
/// | override | for a rule that |
/// |---|---|
/// | [`RETURNS_PERMITS`](Self::RETURNS_PERMITS) | limits concurrency: a dropped permit is refunded |
/// | [`peek`](Self::peek), [`in_use`](Self::in_use) | can answer without a copy of the state, or more precisely |
/// | [`begin`](Self::begin), [`fresh_key`](Self::fresh_key), [`evictable_from`](Self::evictable_from) | counts time from the start of its limiter, or starts with less than it can hold |
/// | [`recorded_at`](Self::recorded_at) | records a take under a later moment when the clock steps back |
/// | [`EXACT_REFUNDS`](Self::EXACT_REFUNDS) | cannot undo a take exactly |
/// | [`REMEMBERS_REFUSALS`](Self::REMEMBERS_REFUSALS), [`refused`](Self::refused), [`remaining`](Self::remaining) | penalizes callers that ask too often |
/// | [`book`](Self::book), [`charge`](Self::charge), [`settle`](Self::settle) | can go into debt |
/// | [`add`](Self::add) | can distinguish an addition from the refund of a take at this moment |
/// | [`window`](Self::window), [`overflows_from`](Self::overflows_from) | knows its period, or when its refill is lost |
/// | [`adopt`](Self::adopt) | can carry over more than a sum when the limit changes |
pub trait Rule: Send + Sync + fmt::Debug + 'static {
    /// The state that the rule keeps between decisions.
    type State: Clone + Send + Sync + fmt::Debug;

    /// The form of the state that the fast path works on: `Self` if the rule implements [`Packed`], otherwise
    /// [`Unpacked`].
    type Fast: Packed<Self>;

    /// Returns the most that can be granted at once. A higher cost can never be granted.
    fn limit(&self) -> u64;

    /// Returns the state of a limiter that starts, or is reset, at `now`.
    fn fresh(&self, now: Moment) -> Self::State;

    /// Takes `cost` now, or returns the moment at which it would fit if nothing else were taken. `cost` is at least 1.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not fit now. The state is then equivalent to the one before.
    fn take(&self, state: &mut Self::State, now: Moment, cost: u64) -> Result<(), Refusal>;

    /// Returns the amount that could be taken now.
    fn available(&self, state: &Self::State, now: Moment) -> u64;

    /// Undoes at `now` a take of `cost` that was [recorded at](Self::recorded_at) `taken`, or returns a permit.
    ///
    /// It never frees more than was taken then and is still held: units that have since left their window or been
    /// refilled are not freed again.
    fn refund(&self, state: &mut Self::State, now: Moment, taken: Moment, cost: u64);

    /// Returns the moment at which the whole limit is available again if nothing else is taken; `None` if that is not
    /// known.
    fn full_at(&self, state: &Self::State, now: Moment) -> Option<Moment>;

    /// Whether permits are returned when they are dropped.
    const RETURNS_PERMITS: bool = false;

    /// Returns the answer of [`take`](Self::take) without taking.
    ///
    /// # Errors
    ///
    /// Returns the refusal that `take` would return.
    fn peek(&self, state: &Self::State, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.take(&mut state.clone(), now, cost)
    }

    /// Returns the amount that is taken and not yet returned or refilled.
    fn in_use(&self, state: &Self::State, now: Moment) -> u64 {
        self.limit() - self.available(state, now)
    }

    // Optional refinements.

    /// Whether [`refund`](Self::refund) right after [`take`](Self::take), at the same moment, restores the state
    /// exactly: every later answer is then the same as if nothing had been taken. If it does not, a demand on several
    /// limits asks this one with [`peek`](Self::peek) before it takes.
    const EXACT_REFUNDS: bool = true;

    /// Returns [`EXACT_REFUNDS`](Self::EXACT_REFUNDS) of this rule, for types in which it depends on the value.
    fn refunds_exactly(&self) -> bool {
        Self::EXACT_REFUNDS
    }

    /// Whether [`refused`](Self::refused) changes the state.
    const REMEMBERS_REFUSALS: bool = false;

    /// Starts the rule. Called once, when a limiter with this rule is built.
    fn begin(&mut self, start: Moment) {
        let _ = start;
    }

    /// Returns the state of a new key, at `now`, of a limiter that started earlier: windows and refills of all keys are
    /// counted from the start of the limiter.
    fn fresh_key(&self, now: Moment) -> Self::State {
        self.fresh(now)
    }

    /// Returns the moment from which a state equals that of a [new key](Self::fresh_key), so that evicting it changes
    /// no answer; `None` if that is not known.
    ///
    /// A state that is better than a new one does not equal it, and neither does one that is worse. A limit with keys
    /// that start with less than they can hold evicts none of them before there are `max_keys`: it returns the last
    /// moment, `u64::MAX` nanoseconds.
    fn evictable_from(&self, state: &Self::State, now: Moment) -> Option<Moment> {
        self.full_at(state, now)
    }

    /// Returns the moment under which the [`take`](Self::take) that has just been made at `now` is recorded, to be
    /// passed to [`refund`](Self::refund). It is later than `now` if the state has seen a later moment before: two
    /// threads may read the clock in one order and take in the other.
    #[inline]
    fn recorded_at(&self, state: &Self::State, now: Moment) -> Moment {
        let _ = state;
        now
    }

    /// Remembers a refusal for lack of room. Called once for each such demand, with the answer of [`take`](Self::take);
    /// returns the refusal for the caller. Only a rule that [remembers](Self::REMEMBERS_REFUSALS) refusals is called,
    /// and it must be [`Unpacked`]: refusals on the fast path are not reported. A cost of 0 is a probe, and its refusal
    /// is not remembered.
    fn refused(
        &self,
        state: &mut Self::State,
        now: Moment,
        cost: u64,
        refusal: Refusal,
    ) -> Refusal {
        let _ = (state, now, cost);
        refusal
    }

    /// Returns the remainder of the limit, whether or not it could be taken now, for refusals.
    fn remaining(&self, state: &Self::State, now: Moment) -> u64 {
        self.available(state, now)
    }

    /// Returns the state after taking `cost` ahead of time, and when it may be used. `None`, the default, if this rule
    /// cannot go into debt; a reservation then takes a place in the queue. The cost of a [charge](Self::charge) may be
    /// above the limit.
    fn book(&self, state: &Self::State, now: Moment, cost: u64) -> Option<(Self::State, Moment)> {
        let _ = (state, now, cost);
        None
    }

    /// Takes `cost` after the fact, unconditionally. A rule that [books](Self::book) goes into debt; any other takes
    /// what is available.
    fn charge(&self, state: &mut Self::State, now: Moment, cost: u64) {
        if cost == 0 {
            return;
        }
        if let Some((booked, _)) = self.book(state, now, cost) {
            *state = booked;
            return;
        }
        let cost = self.available(state, now).min(cost);
        if cost > 0 {
            let _ = self.take(state, now, cost);
        }
    }

    /// Corrects at `now` a take of `estimate` at `taken` that turned out to cost `actual`, as if `actual` had been
    /// taken at `taken`.
    ///
    /// The refill since then counts against the actual cost, not against the estimate.
    fn settle(
        &self,
        state: &mut Self::State,
        now: Moment,
        taken: Moment,
        (estimate, actual): (u64, u64),
    ) {
        let mut alone = self.fresh_key(taken);
        self.charge(&mut alone, taken, estimate.abs_diff(actual));
        if self.full_at(&alone, now).is_some_and(|full| full <= now) {
            // It was refilled, or has left its window: the current usage is due to other takes.
            return;
        }
        match actual.checked_sub(estimate) {
            Some(more) => self.charge(state, taken.min(now), more),
            None => self.refund(state, now, taken, estimate - actual),
        }
    }

    /// Makes up to `amount` more available, never more than the limit.
    fn add(&self, state: &mut Self::State, now: Moment, amount: u64) {
        self.refund(state, now, now, amount);
    }

    /// Returns the time in which the whole limit is refilled, if time refills it, for headers and descriptions.
    fn window(&self, now: Moment) -> Option<Duration> {
        if Self::RETURNS_PERMITS {
            return None;
        }
        let full_after = |at| {
            let mut state = self.fresh(at);
            let all = self.available(&state, at);
            if all > 0 {
                self.take(&mut state, at, all).ok()?;
            }
            self.full_at(&state, at)
        };
        // The current window may have begun earlier; the one after it is whole.
        let border = full_after(now)?;
        full_after(border).map(|full| full.since(border))
    }

    /// Returns the moment from which refill is lost if nothing is taken before. Until then the waiters of this rule may
    /// be served late, in batches. A rule that does not know the moment returns `now`, and its waiters are served
    /// exactly on time.
    fn overflows_from(&self, state: &Self::State, now: Moment) -> Moment {
        let _ = state;
        now
    }

    /// Returns the state with which this rule replaces `old`, so that a limit can be changed while it is used.
    ///
    /// By default the usage counts as if it had been taken now, up to the limit.
    fn adopt(&self, old: &Self, state: &Self::State, now: Moment, carry: Carry) -> Self::State
    where
        Self: Sized,
    {
        let mut fresh = self.fresh(now);
        let used = carry.used(old.in_use(state, now), old.limit(), self.limit());
        // It fits: nothing else is in use.
        if let used @ 1.. = used.min(self.limit()) {
            let _ = self.take(&mut fresh, now, used);
        }
        fresh
    }

    // For the rules of this crate.

    /// Takes `cost` for permits that a replaced limiter granted. If permits are returned, it may exceed the limit.
    #[doc(hidden)]
    fn occupy(&self, state: &mut Self::State, now: Moment, cost: u64) {
        self.charge(state, now, cost);
    }

    /// Returns whether earlier grants can still be [refunded](Self::refund) into a state that was
    /// [adopted](Self::adopt) with this `carry`.
    ///
    /// A new state that starts with a sum does not record which grants are in it, nor the refill before the change:
    /// undoing an older grant would free permits of other callers. Only permits can always be returned.
    #[doc(hidden)]
    fn keeps_grants(&self, carry: Carry) -> bool {
        let _ = carry;
        Self::RETURNS_PERMITS
    }

    /// Returns whether usage is compared with one limit. If not, a queue counts only the waiting costs.
    #[doc(hidden)]
    fn has_one_limit(&self) -> bool {
        true
    }

    /// Returns the longest wait of a reservation whose demand does not limit it.
    #[doc(hidden)]
    fn longest_wait(&self) -> Option<Duration> {
        None
    }

    /// Returns the moment at which it [began](Self::begin), if its answers depend on that.
    #[doc(hidden)]
    fn began(&self) -> Moment {
        Moment::ORIGIN
    }

    /// Returns whether a state from outside the program can be one of this rule.
    #[doc(hidden)]
    fn knows(&self, state: &Self::State) -> bool {
        let _ = state;
        true
    }

    /// Returns this rule as one that learns from the work it admits, if it does. Only a rule that [returns
    /// permits](Self::RETURNS_PERMITS) can learn.
    #[doc(hidden)]
    #[inline(always)]
    fn learning(&self) -> Option<&dyn Learning<Self::State>> {
        None
    }
}
