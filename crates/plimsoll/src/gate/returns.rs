//! What comes back to a gate: permits, places in the queue, and the gate itself.

use std::panic::resume_unwind;
use std::sync::Arc;

use super::core::{ASTRAY, Core, MARK, PARKED};
use super::learning::{Ended, teaches};
use super::telling::Left;
use crate::batched::TakeBack;
use crate::grant::Era;
use crate::learning::Load;
use crate::queue::{Status, Ticket};
use crate::stamp::Stamp;
use crate::sync::{Ordering, lock};
use crate::woken::Woken;
use crate::{Grant, Moment, Outcome, Packed, Reason, Rule, Source};

impl<R: Rule> Source for Core<R> {
    #[inline]
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        let cost = grant.cost;
        if R::RETURNS_PERMITS {
            let learns = self.rule.learning().is_some();
            let limit = if learns { self.rule.limit() } else { 0 };
            // Released to whoever takes next: what was done under the permit happened before.
            let word = self.word.fetch_add(u64::from(cost), Ordering::AcqRel);
            if word & PARKED != 0 {
                self.give_back_long(grant, outcome, word);
            } else if learns && teaches(grant, outcome) {
                self.learn_shortly(Ended::new(grant, outcome), word, limit);
            }
        }
    }

    fn undo(&self, grant: Grant, whole: bool) {
        self.undo_of(grant, whole, Era::default());
    }

    fn undo_of(&self, grant: Grant, whole: bool, era: Era) {
        self.put_back(grant, whole, era);
    }

    fn now(&self) -> Option<Moment> {
        Some(self.clock.now())
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        // Whoever holds a reference to a core holds it through an `Arc`.
        match lock(&self.inside).me.upgrade() {
            Some(me) => me,
            None => unreachable!("a core lives in an Arc"),
        }
    }
}

impl<R: Rule> TakeBack for Core<R> {
    fn take_back(&self, grant: Grant, era: Era) {
        self.put_back(grant, false, era);
    }
}

impl<R: Rule> Core<R> {
    /// As if so much had not been taken. `whole` says whether that takes a grant back.
    fn put_back(&self, grant: Grant, whole: bool, era: Era) {
        let at = grant.taken;
        // By the reading that grants on the fast path have: what is undone in the tick in which it was granted is undone
        // exactly. By the precise time, the refill of up to a tick would seem to have come since.
        self.enter(self.clock.now().max(at), |turn| {
            turn.inside.counts.undone += u64::from(whole);
            if turn.put_back(Stamp { at, era }, grant.cost) {
                turn.tell_processed(grant, Outcome::Ignore);
                turn.serve();
            }
        });
    }

    #[cold]
    fn give_back_long(&self, grant: Grant, outcome: Outcome, word: u64) {
        let Grant { cost, taken, .. } = grant;
        // Before the lock: waiting for it is not part of the work.
        let now = self.clock.now();
        let learns = self.rule.learning().is_some() && teaches(grant, outcome);
        let ended = Ended::new(grant, outcome);
        let mut woken = Woken::default();
        let mut inside = lock(&self.inside);
        let Some(state) = inside.state.take() else {
            // The state went back into the word before this addition could be repeated.
            let word = self.word.fetch_add(u64::from(cost), Ordering::AcqRel);
            if learns {
                // Behind the lock the limit is that of the word.
                let in_use = self
                    .rule
                    .in_use(&R::Fast::unpack(&self.rule, word, now), now);
                drop(inside);
                self.learn(ended, Load::of(now, in_use, 0));
            }
            return;
        };
        let load = self.run(&mut inside, state, now, &mut woken, |turn| {
            let load = learns.then(|| turn.load());
            turn.rule.refund(turn.state, now, taken, cost);
            turn.tell_processed(grant, outcome);
            turn.inside.forecast.forget();
            turn.serve();
            load
        });
        if inside.state.is_some() && word > MARK + ASTRAY {
            self.word.swap(MARK, Ordering::AcqRel);
        }
        drop(inside);
        self.wake(now, &mut woken);
        let load = load.unwrap_or_else(|panic| resume_unwind(panic));
        if let Some(load) = load {
            self.learn(ended, load);
        }
    }

    /// Gives up a place in the queue, or what was granted to it and never read. What was reserved can
    /// be given back until its time, as any reservation.
    pub(super) fn leave(&self, ticket: Ticket, cost: u32, reserved: bool) {
        let now = self.clock.precise_now();
        // Its own waker is dropped when the lock is free, and not woken: nobody waits any more.
        let _waker = self.enter(now, |turn| {
            let mut waker = None;
            match turn.inside.waiters.status(ticket) {
                Some(Status::Waiting) => {
                    turn.inside.forecast.forget();
                    waker = turn
                        .inside
                        .waiters
                        .settle(ticket, Status::Refused(Reason::Closed));
                    turn.tell_left(ticket, Left::ByItself);
                    turn.inside.counts.cancelled += 1;
                }
                Some(Status::Granted(taken))
                    if reserved && !R::RETURNS_PERMITS && turn.now > taken.at => {}
                Some(Status::Granted(taken)) => {
                    turn.put_back(taken, cost);
                    turn.tell_unread(ticket, taken.at);
                    turn.inside.counts.undone += 1;
                    turn.inside.counts.cancelled += 1;
                }
                Some(Status::Refused(_)) => {}
                None => return None,
            }
            turn.inside.waiters.free(ticket);
            turn.serve();
            waker
        });
    }

    pub(super) fn close(&self) {
        self.enter(self.clock.precise_now(), |turn| {
            turn.inside.closed = true;
            self.closed.store(true, Ordering::Relaxed);
            turn.serve();
        });
    }
}
