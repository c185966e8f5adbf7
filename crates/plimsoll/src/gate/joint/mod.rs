//! A gate as one of several limiters that are asked together.

mod word;

use std::sync::Arc;
use std::task::Waker;

use super::asking::{is_for_want_of_room, take};
use super::locked::Turn;
use super::word::Core;
use crate::acquire::Queueing;
use crate::demand::Patience;
use crate::events::EventKind;
use crate::joint::{Decision, Exchange, Joint, Place, Step, Stepped, Word};
use crate::queue::{Since, Status, Ticket};
use crate::sync::lock;
use crate::unwind::Payload;
use crate::wakeups::{ALL, BATCH, Wakeups};
use crate::{Clock, Demand, Denied, Grant, Moment, Packed, Reason, Refusal, Rule, Source};

impl<R: Rule> Joint for Core<R> {
    fn to_arc(&self) -> Arc<dyn Joint> {
        // Every reference to a core is held through an `Arc`.
        match lock(&self.inside).me.upgrade() {
            Some(me) => me,
            None => unreachable!("a core lives in an Arc"),
        }
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn gives_back(&self) -> bool {
        R::RETURNS_PERMITS
    }

    fn is_in_word(&self) -> bool {
        !self.is_parked()
    }

    fn undoes_exactly(&self) -> bool {
        R::EXACT_REFUNDS
    }

    #[inline]
    fn take_word(&self, now: Moment, cost: u64) -> Word {
        if cost == 0 {
            return Word::Parked;
        }
        let timed = self.rule.learning().is_none() || self.start().1;
        self.exchange_word(now, cost, timed)
    }

    fn has_room(&self, cost: u64) -> bool {
        let now = self.clock.now_if(!R::Fast::TIMELESS);
        cost > 0 && self.word_grants(now.unwrap_or(Moment::ORIGIN), cost)
    }

    fn undo_word(&self, exchange: Exchange, grant: Grant) {
        if !self.exchange_back(exchange) {
            self.undo(grant, true);
        }
    }

    fn note_word(&self, refusal: Refusal, word: u64, now: Moment, cost: u64) -> Denied {
        self.denied_by_word(refusal, word, now, cost)
    }

    fn note(&self, demand: Demand) -> Result<(), Denied> {
        let now = self.clock.precise_now();
        let answer = self.enter(now, |turn| {
            let peeked = turn.peek(demand, None);
            peeked.map_err(|refusal| self.refused(turn, demand, refusal))
        });
        if answer.is_err() {
            self.tick_if_due(now);
        }
        answer
    }

    fn hint(&self, demand: Demand) -> Result<(), Denied> {
        self.estimate(demand, false)
    }

    fn step(
        &self,
        step: Step,
        wakeups: &mut Wakeups,
        rest: &mut dyn FnMut(bool) -> Decision,
    ) -> Result<Stepped, Payload> {
        let Step { now, demand, place } = step;
        self.enter_once(now, wakeups, |turn| {
            if turn.inside.due <= turn.now {
                turn.serve(ALL);
            }
            let peeked = turn.peek(demand, place);
            match (rest(peeked.is_ok()), peeked) {
                (Decision::Take, _) => {
                    turn.take_from(demand, place);
                    return Stepped::Taken(turn.stamp());
                }
                (Decision::Leave, Err(_)) => turn.withdraw(place),
                (Decision::Note, Err(refusal)) => {
                    turn.withdraw(place);
                    return Stepped::Noted(self.refused(turn, demand, refusal));
                }
                (Decision::Leave | Decision::Note, Ok(())) => {}
            }
            Stepped::Left
        })
    }

    fn wake_all(&self, now: Moment, wakeups: &mut Wakeups) {
        self.wake(now, wakeups);
    }

    fn tick(&self, now: Moment) {
        self.tick_if_due(now);
    }

    fn join(
        &self,
        demand: Demand,
        deadline: Moment,
        since: Since,
    ) -> Result<Option<Ticket>, Denied> {
        let now = self.clock.precise_now();
        let patience = Patience::Until(deadline);
        let demand = Demand { patience, ..demand };
        let answer = self.enter(now, |turn| {
            let refusal = match turn.peek(demand, None) {
                // Without a queue there is no place to join, and the demand need not wait.
                Ok(()) if turn.inside.queue.is_none() => return Ok(None),
                Ok(()) => Refusal::until(now),
                Err(refusal) => refusal,
            };
            let joined = if is_for_want_of_room(refusal.reason) {
                turn.enqueue(demand, refusal, since).map(Some)
            } else {
                Err(refusal)
            };
            joined.map_err(|refusal| self.refused(turn, demand, refusal))
        });
        if answer.is_err() {
            self.tick_if_due(now);
        }
        answer
    }

    fn place(&self, ticket: Ticket, waker: Option<&Waker>) -> Place {
        let mut inside = lock(&self.inside);
        let waiters = &mut inside.waiters;
        let (status, former) = match waker {
            Some(waker) => waiters.poll(ticket, waker),
            None => (waiters.status(ticket), waiters.take_offered_waker(ticket)),
        };
        let place = match status {
            Some(Status::Waiting) if inside.waiters.is_offered(ticket) => Place::Offered,
            Some(Status::Waiting) => Place::Waiting,
            Some(Status::Refused(reason)) => Place::Lost {
                reason,
                offered: inside.waiters.is_offered(ticket),
            },
            // No waiter is marked as granted before it has taken.
            Some(Status::Granted(_)) | None => Place::Lost {
                reason: Reason::Closed,
                offered: false,
            },
        };
        drop(inside);
        drop(former);
        place
    }

    fn leave_place(&self, ticket: Ticket, cost: u64) {
        Queueing::leave(self, ticket, Demand::of(cost), false);
    }

    fn lost(&self, reason: Reason) -> Denied {
        self.lost(reason)
    }

    fn deadline_of(&self, ticket: Ticket) -> Option<Moment> {
        lock(&self.inside).waiters.deadline_of(ticket)
    }

    fn queue_bound(&self) -> Option<u64> {
        lock(&self.inside).queue.map(|queue| queue.bound)
    }
}

impl<R: Rule> Turn<'_, R> {
    /// Takes what [`peek`](Self::peek) said could be taken, and leaves the place.
    fn take_from(&mut self, demand: Demand, place: Option<Ticket>) {
        // `peek` was called in the same turn.
        let _taken = take(self.rule, self.state, self.now, demand.cost);
        self.inside.forecast.forget();
        match place {
            Some(ticket) => {
                self.settle(ticket, Status::Granted(self.stamp()));
                self.inside.waiters.free(ticket);
                self.serve(BATCH);
            }
            None => {
                self.inside.counts.granted += 1;
                self.emit(EventKind::Processing {
                    priority: demand.priority,
                });
            }
        }
    }

    /// Withdraws the notice of a waiter for which there is no room after all: it is notified again when there is.
    fn withdraw(&mut self, place: Option<Ticket>) {
        if let Some(ticket) = place {
            self.inside.waiters.withdraw(ticket);
            self.serve(BATCH);
        }
    }
}
