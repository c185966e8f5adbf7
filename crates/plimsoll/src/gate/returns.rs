//! What comes back to a gate: permits, places in the queue, and the gate itself.

use std::sync::Arc;

use super::core::{ASTRAY, Core, MARK, PARKED};
use super::woken::Woken;
use crate::batched::TakeBack;
use crate::queue::{Status, Ticket};
use crate::sync::{Ordering, lock};
use crate::{Moment, Outcome, Reason, Rule, Source};

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
        lock(&self.inside).counts.undone += 1;
        self.take_back(cost, taken);
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
    /// As if so much had not been taken.
    fn take_back(&self, cost: u32, taken: Moment) {
        let now = self.clock.precise_now().max(taken);
        self.enter(now, |turn| {
            turn.rule.put_back(turn.state, now, taken, cost);
            turn.inside.forecast.forget();
            turn.serve();
        });
    }
}

impl<R: Rule> Core<R> {
    #[cold]
    fn give_back_long(&self, cost: u32, taken: Moment, word: u64) {
        let now = self.clock.now();
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
        self.wake(now, &mut woken);
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
