mod carry;

use std::fmt;
use std::time::Duration;

use crate::adaptive::{Load, Sample};
use crate::{Moment, Reason};

pub use carry::Carry;

/// An algorithm: what a limiter remembers, and what it answers.
///
/// A rule is pure. It has parameters and functions of a state, a moment and a cost; it owns no clock,
/// takes no lock and never waits. [`Gate`](crate::Gate) turns any rule into a limiter with a queue,
/// reservations, refusals and totals, so a new algorithm is one file that implements this trait.
///
/// Moments given to a rule may step back. A rule treats a moment before one it has already seen as
/// if time had stood still; it must never grant more for it.
///
/// # The short form of a state
///
/// A state that fits 63 bits can be changed by a single compare-and-exchange. [`pack`](Self::pack)
/// gives that form, or `None` for a state that does not fit, which the gate then keeps behind its
/// lock. Words may leave out what the moment tells: `unpack` is given a moment less than
/// 2^[`epoch_bits`](Self::epoch_bits) nanoseconds away from one at which the word was good.
pub trait Rule: Send + Sync + fmt::Debug + 'static {
    /// What is remembered.
    type State: Clone + Send + Sync + fmt::Debug;

    /// Whether permits are given back when they are dropped.
    ///
    /// The short form of such a rule must be a number to which the returned cost is added.
    const GIVES_BACK: bool = false;

    /// Whether [`refused`](Self::refused) remembers anything.
    const REMEMBERS_REFUSALS: bool = false;

    /// Whether [`book`](Self::book) can take ahead of time.
    const BOOKS: bool = false;

    /// Whether [`put_back`](Self::put_back) right after [`take`](Self::take), at the same moment, restores the
    /// state exactly: from then on every question is answered as if nothing had been taken. Where it does not,
    /// whoever takes from several limits asks this one with [`peek`](Self::peek) before it takes.
    const UNDO_IS_EXACT: bool = true;

    /// Whether [`learn`](Self::learn) learns anything. Only a rule that is given back to can.
    const LEARNS: bool = false;

    /// Whether no function of this rule depends on the moment it is given. Then nobody reads a clock for a decision
    /// that needs no lock.
    const TIMELESS: bool = false;

    /// The most that can be granted at once. A higher cost is too large.
    fn limit(&self) -> u32;

    /// Called once, when a limiter with this rule is built.
    fn begin(&mut self, start: Moment) {
        let _ = start;
    }

    /// Called once, before [`begin`](Self::begin), if the limiter has a queue; returns the bound with which it
    /// begins.
    fn begin_queue(&mut self, bound: u32) -> u32 {
        bound
    }

    /// The state of a limiter that begins, or begins anew, at `now`.
    fn fresh(&self, now: Moment) -> Self::State;

    /// The state of a new key, at `now`, of a limiter that began earlier: windows and refills of all keys
    /// are counted from its beginning.
    fn fresh_key(&self, now: Moment) -> Self::State {
        self.fresh(now)
    }

    /// From when on a state equals that of a [new key](Self::fresh_key), so that forgetting it changes no
    /// answer; `None` if nobody knows.
    ///
    /// A state that has become better than a new one equals it no more than one that is worse. A limit whose keys
    /// begin with less than they can hold keeps all of them, up to `max_keys`: it answers `u64::MAX` nanoseconds.
    fn forgettable_from(&self, state: &Self::State, now: Moment) -> Option<Moment> {
        self.full_at(state, now)
    }

    /// Takes `cost` now, or says when it would fit if nobody else came. `cost` is at least 1.
    ///
    /// # Errors
    ///
    /// If it does not fit now. The state is then as good as before.
    fn take(&self, state: &mut Self::State, now: Moment, cost: u32) -> Result<(), Refusal>;

    /// The moment under which the [`take`](Self::take) that has just been made at `now` is remembered, to be given
    /// to [`put_back`](Self::put_back). It is later than `now` if the state has seen a later moment before:
    /// two threads may read the clock in one order and take in the other.
    #[inline]
    fn recorded_at(&self, state: &Self::State, now: Moment) -> Moment {
        let _ = state;
        now
    }

    /// Called once for a demand that is refused for want of room, with what [`take`](Self::take) said;
    /// returns what the caller is told. For rules that say they [remember](Self::REMEMBERS_REFUSALS) refusals.
    ///
    /// Such a rule must not have a short form: refusals by the word are not told. A cost of 0 is a question, and
    /// its refusal is not remembered.
    fn refused(
        &self,
        state: &mut Self::State,
        now: Moment,
        cost: u32,
        refusal: Refusal,
    ) -> Refusal {
        let _ = (state, now, cost);
        refusal
    }

    /// What [`take`](Self::take) would answer.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    fn peek(&self, state: &Self::State, now: Moment, cost: u32) -> Result<(), Refusal> {
        self.take(&mut state.clone(), now, cost)
    }

    /// How much could be taken now.
    fn available(&self, state: &Self::State, now: Moment) -> u32;

    /// What is left of the limit, whether or not it could be taken now: what the refused are told.
    fn remaining(&self, state: &Self::State, now: Moment) -> u32 {
        self.available(state, now)
    }

    /// How much is taken and not yet given back or replenished.
    fn in_use(&self, state: &Self::State, now: Moment) -> u64 {
        u64::from(self.limit() - self.available(state, now))
    }

    /// Undoes, now, a take of `cost` that was [recorded at](Self::recorded_at) `taken`; or gives a permit back.
    ///
    /// It never frees more than was taken then and is still held: what has left its window or has been refilled
    /// since is not freed again.
    fn put_back(&self, state: &mut Self::State, now: Moment, taken: Moment, cost: u32);

    /// Corrects, now, a take of `estimate` at `taken` that turned out to cost `actual`: as if `actual` had been taken
    /// at `taken`.
    ///
    /// What has come back since then counts against the actual cost, not against the estimate.
    fn settle(
        &self,
        state: &mut Self::State,
        now: Moment,
        taken: Moment,
        (estimate, actual): (u32, u32),
    ) {
        let mut alone = self.fresh_key(taken);
        self.charge(&mut alone, taken, estimate.abs_diff(actual));
        if self.full_at(&alone, now).is_some_and(|full| full <= now) {
            // It has come back, or left its window: what is in use now was taken by others.
            return;
        }
        match actual.checked_sub(estimate) {
            Some(more) => self.charge(state, taken.min(now), more),
            None => self.put_back(state, now, taken, estimate - actual),
        }
    }

    /// Makes up to `amount` more available, never more than the limit.
    fn add(&self, state: &mut Self::State, now: Moment, amount: u32) {
        self.put_back(state, now, now, amount);
    }

    /// When everything is available again if nobody else comes; `None` if nobody knows.
    fn full_at(&self, state: &Self::State, now: Moment) -> Option<Moment>;

    /// The time in which the whole limit comes back, if it does by itself: what users are told.
    fn window(&self, now: Moment) -> Option<Duration> {
        if Self::GIVES_BACK {
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
        // Windows may have begun before: the one after this one is whole.
        let border = full_after(now)?;
        full_after(border).map(|full| full.since(border))
    }

    /// From when on anything that comes is lost if nobody takes any before. A rule that cannot tell says
    /// `now`; its waiters are then served to the moment.
    fn loses_from(&self, state: &Self::State, now: Moment) -> Moment {
        let _ = state;
        now
    }

    /// Takes `cost` ahead of time and says when it may be used. `None`, the default, if this rule
    /// cannot go into debt; a reservation then takes a place in the queue. What is [charged](Self::charge) may
    /// cost more than the limit.
    fn book(&self, state: &mut Self::State, now: Moment, cost: u32) -> Option<Moment> {
        let _ = (state, now, cost);
        None
    }

    /// Takes `cost` after the fact, in one step: nobody is asked. A rule that [books](Self::BOOKS) goes into
    /// debt; another takes as much as is available.
    fn charge(&self, state: &mut Self::State, now: Moment, cost: u32) {
        if cost == 0 || (Self::BOOKS && self.book(state, now, cost).is_some()) {
            return;
        }
        let cost = self.available(state, now).min(cost);
        if cost > 0 {
            let _ = self.take(state, now, cost);
        }
    }

    /// Whether what is in use is compared with one limit. Where it is not, a queue counts only what waits.
    fn has_one_limit(&self) -> bool {
        true
    }

    /// The longest wait of a reservation that does not say itself how long it may be.
    fn longest_wait(&self) -> Option<Duration> {
        None
    }

    /// The state with which this rule takes over from `old`, so that a limit can be changed while it is used.
    ///
    /// Unless a rule knows better, what was in use counts as if it had been taken now, up to the limit.
    fn adopt(&self, old: &Self, state: &Self::State, now: Moment, carry: Carry) -> Self::State
    where
        Self: Sized,
    {
        let mut fresh = self.fresh(now);
        let used = carry.used(old.in_use(state, now), old.limit(), self.limit());
        // It fits: nothing else is there.
        if let Ok(used @ 1..) = u32::try_from(used.min(self.limit().into())) {
            let _ = self.take(&mut fresh, now, used);
        }
        fresh
    }

    /// Whether what was granted before can still be [put back](Self::put_back) into a state that was
    /// [adopted](Self::adopt) with this `carry`.
    ///
    /// A state that begins anew with a sum no longer knows which part of it is whose, and what had been replenished
    /// before the change: undoing an older grant would free what others hold. Only permits always go back.
    fn keeps_grants(&self, carry: Carry) -> bool {
        let _ = carry;
        Self::GIVES_BACK
    }

    /// The short form of `state`, below 2^63, if it has one now. It must be good at `now`, however old the
    /// state is.
    fn pack(&self, state: &Self::State, now: Moment) -> Option<u64> {
        let _ = (state, now);
        None
    }

    /// The state whose short form is `word`.
    fn unpack(&self, word: u64, now: Moment) -> Self::State {
        let _ = word;
        self.fresh(now)
    }

    /// [`take`](Self::take) on the short form. Rules whose state is wider than a word may have a
    /// shorter way than to unpack it. `cost` is at least 1.
    ///
    /// What is taken here counts as taken at `now`. A rule that would [record](Self::recorded_at) another moment says
    /// [`Short::Unfit`].
    #[inline]
    fn take_short(&self, word: u64, now: Moment, cost: u32) -> Short {
        let mut state = self.unpack(word, now);
        match self.take(&mut state, now, cost) {
            // Only behind the lock a grant is told at which other moment it is remembered.
            Ok(()) if self.recorded_at(&state, now) != now => Short::Unfit,
            Ok(()) => self.pack(&state, now).map_or(Short::Unfit, Short::Taken),
            Err(refusal) => {
                let full_at = self
                    .full_at(&state, now)
                    .map_or(Moment::NEVER, |at| at.max(now));
                Short::Refused(refusal.full_at(full_at))
            }
        }
    }

    /// Learns from work that has ended, if it said how it went, while so much waited; `untimed` was granted so far
    /// that nothing can be learned from. Called after its permit has
    /// gone back, with no lock held. Returns whether the limiter is to be [adjusted](Self::adjust).
    ///
    /// `refused` of the sample is left to the rule, which is told of refusals by
    /// [`turned_away`](Self::turned_away).
    fn learn(&self, sample: Sample, untimed: u64, queued: u32) -> bool {
        let _ = (sample, untimed, queued);
        false
    }

    /// Whether work that begins in this tick of the machine's clock is to be timed, so that something can be learned
    /// from it.
    #[inline]
    fn times(&self, tick: Moment) -> bool {
        let _ = tick;
        true
    }

    /// How much of what has begun was timed, if not all of it was.
    fn timed(&self) -> Option<u64> {
        None
    }

    /// Called when somebody is refused for want of room, at once or after waiting, if this rule
    /// [learns](Self::LEARNS). It is called very often, and with locks held.
    fn turned_away(&self) {}

    /// When the next [`tick`](Self::tick) is due. It comes with the first traffic at or after that.
    fn tick_at(&self) -> Moment {
        Moment::NEVER
    }

    /// Learns from the passing of time. Called with no lock held. Returns whether the limiter is to be
    /// [adjusted](Self::adjust).
    fn tick(&self, load: Load) -> bool {
        let _ = load;
        false
    }

    /// Makes what was learned the limit, and the bound of the queue if there is one. Called behind the lock of
    /// the gate.
    fn adjust(&self, state: &mut Self::State, bound: Option<&mut u32>) {
        let _ = (state, bound);
    }

    /// For how long a short form is good, as a power of two in nanoseconds.
    fn epoch_bits(&self) -> u32 {
        63
    }
}

/// What [`Rule::take_short`] comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Short {
    /// Taken; this is the new short form.
    Taken(u64),
    /// Refused.
    Refused(Refusal),
    /// The new state has no short form.
    Unfit,
}

/// Why a rule does not grant now, and when it would.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) ready_at: Moment,
    pub(crate) full_at: Moment,
}

impl Refusal {
    /// Not before `ready_at`.
    #[must_use]
    pub const fn until(ready_at: Moment) -> Self {
        Self {
            reason: Reason::Exhausted,
            ready_at,
            full_at: Moment::NEVER,
        }
    }

    /// Not before somebody gives something back.
    #[must_use]
    pub const fn until_given_back() -> Self {
        Self::until(Moment::NEVER)
    }

    /// With another reason than that the limit is used up.
    #[must_use]
    pub const fn because(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// Says too when everything is available again. A rule that refuses in [`Rule::take_short`] should:
    /// nobody asks it again.
    #[must_use]
    pub const fn full_at(mut self, full_at: Moment) -> Self {
        self.full_at = full_at;
        self
    }

    /// When the cost would fit if nobody else came, if anybody knows.
    #[must_use]
    pub fn ready_at(self) -> Option<Moment> {
        self.ready_at.is_known().then_some(self.ready_at)
    }
}
