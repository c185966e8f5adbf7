//! The state of a gate and how it is reached.
//!
//! # Short and long
//!
//! Most of the time nobody waits, and the state fits a word: a decision is one load, some arithmetic
//! and one compare-and-exchange. Whatever does not fit that picture happens behind the lock: waiting,
//! serving, closing, resizing, reserving. Whoever needs the lock first *parks* the word, that is, swaps
//! a mark into it and carries the state behind the lock; as long as the mark is there, everybody else
//! comes to the lock too, so a queue is never overtaken. When nobody waits any more, the state goes back
//! into the word.
//!
//! # Giving back
//!
//! A permit is given back by adding to the word. If the word turns out to have been parked, the
//! addition went into the mark, where it means nothing, and is repeated behind the lock: on the state
//! if it is there, on the word if the state has gone back in the meantime. The mark has room for more
//! additions than there can be threads.
//!
//! # Epochs
//!
//! A word may keep only the low bits of a moment. It is good for a stretch of time, the epoch, after
//! which the first to come refreshes it behind the lock. For common limits an epoch lasts for years.

use std::sync::{Arc, Weak};

use super::inside::{Inside, Turn, Woken};
use crate::clock::{Clock, Ring};
use crate::queue::{Status, Ticket};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::totals::Totals;
use crate::{Demand, Denied, Moment, Outcome, Reason, Refusal, Rule, Short, Snapshot, Source};

/// Set in a word that holds no state.
const PARKED: u64 = 1 << 63;
/// A parked word, with room above and below for additions that went astray.
const MARK: u64 = PARKED | 1 << 62;

/// When so much has gone astray, the mark is renewed. A limiter with a queue that never empties may get
/// there after years.
const ASTRAY: u64 = 1 << 60;

pub(crate) struct Core<R: Rule> {
    word: AtomicU64,
    /// The number of the epoch for which the word is good.
    epoch: AtomicU64,
    epoch_bits: u32,
    pub(super) rule: R,
    pub(super) clock: Clock,
    pub(super) totals: Totals,
    pub(super) name: Option<&'static str>,
    inside: Mutex<Inside<R>>,
    me: Weak<Self>,
}

/// What the short way came to.
pub(super) enum Shortly {
    Granted,
    /// Refused, by this word.
    Refused(Refusal, u64),
    /// The short way is closed.
    Parked,
}

impl<R: Rule> Core<R> {
    pub(super) fn new(
        mut rule: R,
        clock: Clock,
        totals: Totals,
        name: Option<&'static str>,
        mut inside: Inside<R>,
    ) -> Arc<Self> {
        let now = clock.precise_now();
        rule.begin(now);
        let state = rule.fresh(now);
        let word = rule.pack(&state, now);
        if word.is_none() {
            inside.state = Some(state);
        }
        let epoch_bits = rule.epoch_bits();
        Arc::new_cyclic(|me| Self {
            word: AtomicU64::new(word.unwrap_or(MARK)),
            epoch: AtomicU64::new(now.as_nanos() >> epoch_bits),
            epoch_bits,
            rule,
            clock,
            totals,
            name,
            inside: Mutex::new(inside),
            me: Weak::clone(me),
        })
    }

    /// Decides by the word alone, if the state is there. `cost` is at least 1.
    #[inline(always)]
    pub(super) fn take_short(&self, now: Moment, cost: u32) -> Shortly {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            // The epoch is read after the word, so a word of a later epoch is noticed.
            let epoch = self.epoch.load(Ordering::Relaxed);
            if word & PARKED != 0 || now.as_nanos() >> self.epoch_bits != epoch {
                return Shortly::Parked;
            }
            let next = match self.rule.take_short(word, now, cost) {
                Short::Taken(next) => next,
                Short::Refused(refusal) => return Shortly::Refused(refusal, word),
                Short::Unfit => return Shortly::Parked,
            };
            let exchanged =
                self.word
                    .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire);
            match exchanged {
                Ok(_) => return Shortly::Granted,
                Err(other) => word = other,
            }
        }
    }

    /// Takes behind the lock; a refusal is counted and explained. Kept apart so that the short way
    /// stays small enough to be inlined.
    #[inline(never)]
    pub(super) fn take_long(&self, now: Moment, demand: Demand) -> Result<(), Denied> {
        if let Some(answer) = self.take_parked(now, demand.cost) {
            return answer;
        }
        self.enter(now, |turn| match turn.take(demand) {
            Ok(()) => {
                turn.inside.counts.granted += 1;
                Ok(())
            }
            Err(refusal) => Err(self.refused(turn, demand, refusal)),
        })
    }

    /// The middle way, for rules whose state never fits a word: behind the lock, but with nobody
    /// waiting there is nobody to serve.
    fn take_parked(&self, now: Moment, cost: u32) -> Option<Result<(), Denied>> {
        let mut inside = lock(&self.inside);
        if cost == 0 || inside.closed || !inside.waiters.is_empty() {
            return None;
        }
        let state = inside.state.as_mut()?;
        if cost > self.rule.limit() {
            return None;
        }
        match self.rule.take(state, now, cost) {
            Ok(()) => {
                inside.counts.granted += 1;
                Some(Ok(()))
            }
            Err(refusal) => {
                let denied = self.denied(refusal, state, now);
                inside.counts.denied += 1;
                Some(Err(denied))
            }
        }
    }

    /// Counts and explains a refusal at once.
    pub(super) fn refused(
        &self,
        turn: &mut Turn<'_, R>,
        demand: Demand,
        refusal: Refusal,
    ) -> Denied {
        turn.inside.counts.denied += 1;
        let refusal = turn.explain(demand, refusal);
        self.denied(refusal, turn.state, turn.now)
    }

    /// Counts a refusal of the short way, and tells the caller about it.
    #[inline]
    pub(super) fn denied_shortly(
        &self,
        refusal: Refusal,
        word: u64,
        now: Moment,
        cost: u32,
    ) -> Denied {
        self.totals.denied();
        if cost > self.rule.limit() {
            let refusal = Refusal::until_given_back().because(Reason::TooLarge);
            return self.denied(refusal, &self.rule.unpack(word, now), now);
        }
        // Whoever asked for one and did not get it knows that there is nothing.
        let remaining = if cost == 1 {
            0
        } else {
            self.rule.available(&self.rule.unpack(word, now), now)
        };
        self.refusal(refusal, now, remaining)
    }

    /// What a refusal tells the caller.
    pub(super) fn denied(&self, refusal: Refusal, state: &R::State, now: Moment) -> Denied {
        let full_at = self.rule.full_at(state, now).unwrap_or(Moment::NEVER);
        self.refusal(
            refusal.full_at(full_at),
            now,
            self.rule.available(state, now),
        )
    }

    #[inline]
    fn refusal(&self, refusal: Refusal, now: Moment, remaining: u32) -> Denied {
        Denied::from_rule(refusal, now, (self.rule.limit(), remaining), self.name)
    }

    /// Runs `op` behind the lock, on the state, after everybody has been served who is due.
    pub(super) fn enter<T>(&self, now: Moment, op: impl FnOnce(&mut Turn<'_, R>) -> T) -> T {
        let mut woken = Woken::default();
        let output = self.enter_once(now, &mut woken, |turn| {
            if turn.inside.due <= now {
                turn.serve();
            }
            op(turn)
        });
        self.wake(now, woken);
        output
    }

    /// Wakes those who were settled, and goes on serving if they were too many for one turn or the time
    /// of the next has come meanwhile.
    fn wake(&self, mut now: Moment, mut woken: Woken) {
        loop {
            let more = woken.is_full() || woken.overdue;
            if woken.overdue {
                now = self.clock.precise_now();
            }
            woken.wake();
            if !more {
                return;
            }
            self.enter_once(now, &mut woken, |turn| turn.serve());
        }
    }

    fn enter_once<T>(
        &self,
        now: Moment,
        woken: &mut Woken,
        op: impl FnOnce(&mut Turn<'_, R>) -> T,
    ) -> T {
        let mut inside = lock(&self.inside);
        let state = match inside.state.take() {
            Some(state) => state,
            None => self.park(now),
        };
        self.run(&mut inside, state, now, woken, op)
    }

    /// Runs `op`, then puts the state where it belongs.
    fn run<T>(
        &self,
        inside: &mut Inside<R>,
        mut state: R::State,
        now: Moment,
        woken: &mut Woken,
        op: impl FnOnce(&mut Turn<'_, R>) -> T,
    ) -> T {
        let output = op(&mut Turn {
            rule: &self.rule,
            inside,
            state: &mut state,
            now,
            woken: &mut *woken,
        });
        woken.overdue = self.set_alarm(inside);
        let free = inside.waiters.is_empty() && !inside.closed;
        match self.rule.pack(&state, now).filter(|_| free) {
            // Swapped, not stored: additions that go astray are exchanges too, and in one order with
            // this one.
            Some(word) => {
                // What is known of a state behind the lock says nothing about a state in the word.
                inside.forecast.forget();
                let epoch = self
                    .epoch
                    .load(Ordering::Relaxed)
                    .max(now.as_nanos() >> self.epoch_bits);
                self.epoch.store(epoch, Ordering::Relaxed);
                self.word.swap(word, Ordering::AcqRel);
            }
            None => inside.state = Some(state),
        }
        output
    }

    /// Takes the state out of the word.
    fn park(&self, now: Moment) -> R::State {
        let word = self.word.swap(MARK, Ordering::AcqRel);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let current = now.as_nanos() >> self.epoch_bits;
        if word & PARKED != 0 {
            // A rule that panicked took its state with it.
            return self.rule.fresh(now);
        }
        if current == epoch {
            return self.rule.unpack(word, now);
        }
        self.rule
            .unpack(word, Moment::from_nanos(epoch << self.epoch_bits))
    }

    /// Sees to it that the clock rings when the next waiter is served or gives up. Returns whether that
    /// moment has passed already.
    fn set_alarm(&self, inside: &mut Inside<R>) -> bool {
        let mut at = Moment::NEVER;
        if !inside.waiters.is_empty() {
            let deadline = inside.waiters.first_deadline();
            // A deadline is met until it has passed.
            at = inside.due.min(deadline.plus_nanos(1));
        }
        if at == inside.alarm_at || (inside.alarm.is_none() && !at.is_known()) {
            return false;
        }
        inside.alarm_at = at;
        let alarm = *inside.alarm.get_or_insert_with(|| {
            let me: Weak<Self> = Weak::clone(&self.me);
            self.clock.register(me)
        });
        self.clock.set(alarm, at)
    }

    /// Looks at the gate without changing it.
    pub(super) fn look<T>(&self, see: impl FnOnce(&Inside<R>, &R::State, Moment) -> T) -> T {
        let now = self.clock.precise_now();
        let inside = lock(&self.inside);
        match &inside.state {
            Some(state) => see(&inside, state, now),
            None => {
                let word = self.word.load(Ordering::Acquire);
                let epoch = self.epoch.load(Ordering::Relaxed);
                let near = if now.as_nanos() >> self.epoch_bits == epoch {
                    now
                } else {
                    Moment::from_nanos(epoch << self.epoch_bits)
                };
                see(&inside, &self.rule.unpack(word, near), now)
            }
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let (granted, denied) = self.totals.sum();
        self.look(|inside, state, now| Snapshot {
            limit: u64::from(self.rule.limit()),
            available: u64::from(self.rule.available(state, now)),
            in_use: self.rule.in_use(state, now),
            queued: inside.waiters.queued(),
            waiters: inside.waiters.count() as u64,
            granted: (granted + inside.counts.granted).saturating_sub(inside.counts.undone),
            denied: denied + inside.counts.denied,
            evicted: inside.counts.evicted,
            cancelled: inside.counts.cancelled,
        })
    }

    /// Looks at a place in the queue; see [`Waiters::poll`](crate::queue::Waiters::poll).
    pub(super) fn look_at(&self, ticket: Ticket, waker: &std::task::Waker) -> Status {
        let mut inside = lock(&self.inside);
        let (status, former) = inside.waiters.poll(ticket, waker);
        let status = status.unwrap_or(Status::Refused(Reason::Closed));
        if status != Status::Waiting {
            inside.waiters.free(ticket);
        }
        drop(inside);
        drop(former);
        status
    }

    /// Gives up a place in the queue, or what was granted to it and never read. What was reserved can
    /// be given back until its time, as any reservation.
    pub(super) fn leave(&self, ticket: Ticket, cost: u32, reserved: bool) {
        let now = self.clock.precise_now();
        self.enter(now, |turn| {
            match turn.inside.waiters.status(ticket) {
                Some(Status::Waiting) => {
                    turn.settle(ticket, Status::Refused(Reason::Closed));
                    turn.inside.counts.cancelled += 1;
                }
                Some(Status::Granted(taken)) if reserved && !R::GIVES_BACK && now > taken => {}
                Some(Status::Granted(taken)) => {
                    turn.rule.put_back(turn.state, now, taken, cost);
                    turn.inside.forecast.forget();
                    turn.inside.counts.undone += 1;
                    turn.inside.counts.cancelled += 1;
                }
                Some(Status::Refused(_)) => {}
                None => return,
            }
            turn.inside.waiters.free(ticket);
            turn.serve();
        });
    }

    pub(super) fn close(&self) {
        self.enter(self.clock.precise_now(), |turn| {
            turn.inside.closed = true;
            turn.serve();
        });
    }
}

impl<R: Rule> Source for Core<R> {
    #[inline]
    fn give_back(&self, cost: u32, taken: Moment, _outcome: Outcome) {
        if R::GIVES_BACK {
            // Released to whoever takes next: what was done under the permit happened before.
            let word = self.word.fetch_add(u64::from(cost), Ordering::AcqRel);
            if word & PARKED != 0 {
                self.give_back_long(cost, taken, word);
            }
        }
    }

    fn undo(&self, cost: u32, taken: Moment) {
        let now = self.clock.precise_now().max(taken);
        self.enter(now, |turn| {
            turn.rule.put_back(turn.state, now, taken, cost);
            turn.inside.counts.undone += 1;
            turn.inside.forecast.forget();
            turn.serve();
        });
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        // Whoever holds a reference to a core holds it through an `Arc`.
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("a core lives in an Arc"),
        }
    }
}

impl<R: Rule> Core<R> {
    #[cold]
    fn give_back_long(&self, cost: u32, taken: Moment, word: u64) {
        let now = self.clock.precise_now();
        let mut woken = Woken::default();
        let mut inside = lock(&self.inside);
        let Some(state) = inside.state.take() else {
            // The state went back into the word before this addition could be repeated.
            self.word.fetch_add(u64::from(cost), Ordering::AcqRel);
            return;
        };
        self.run(&mut inside, state, now, &mut woken, |turn| {
            turn.rule.put_back(turn.state, now, taken, cost);
            turn.inside.forecast.forget();
            turn.serve();
        });
        if inside.state.is_some() && word > MARK + ASTRAY {
            self.word.swap(MARK, Ordering::AcqRel);
        }
        drop(inside);
        self.wake(now, woken);
    }
}

impl<R: Rule> Ring for Core<R> {
    fn ring(&self, now: Moment) {
        self.enter(now, |turn| {
            // It has rung: the same moment must be set anew.
            turn.inside.alarm_at = Moment::NEVER;
            turn.serve();
        });
    }
}

impl<R: Rule> Drop for Core<R> {
    fn drop(&mut self) {
        if let Some(alarm) = lock(&self.inside).alarm.take() {
            self.clock.release(alarm);
        }
    }
}
