//! Waiting: asking with a waker, joining the queue, and leaving it.

use std::task::{Poll, Waker};

use super::asking::peek;
use super::events::Left;
use super::locked::{Inside, Turn};
use super::word::{ByWord, Core};
use crate::acquire::{Asked, Cancel, Queueing};
use crate::clock::Clock;
use crate::demand::Patience;
use crate::events::EventKind;
use crate::grant::Era;
use crate::queue::{Age, Counts, Evicted, Order, Queue, Since, Status, Ticket};
use crate::stamp::Stamp;
use crate::sync::{Ordering, lock};
use crate::{Demand, Denied, Moment, Packed, Priority, Reason, Refusal, Rule};

impl<R: Rule> Queueing for Core<R> {
    fn ask(&self, demand: &Demand, waker: &Waker) -> Result<Asked, Denied> {
        let demand = *demand;
        if R::Fast::TIMELESS {
            if demand.cost > 0
                && matches!(
                    self.take_by_word(Moment::ORIGIN, demand.cost),
                    ByWord::Granted
                )
            {
                self.totals.granted();
                let undated = Stamp {
                    at: Moment::ORIGIN,
                    era: Era::default(),
                };
                return Ok(Asked::Granted(undated, false));
            }
        } else if let Some(now) = self.clock.now_if(!self.is_parked())
            && demand.cost > 0
            && matches!(self.take_by_word(now, demand.cost), ByWord::Granted)
        {
            self.totals.granted();
            let era = Era::default();
            return Ok(Asked::Granted(Stamp { at: now, era }, true));
        }
        // A wait for a refill needs the precise time. A wait for returned permits does not.
        let patient = R::RETURNS_PERMITS && self.patient.load(Ordering::Relaxed);
        let now = if patient && demand.patience == Patience::Unlimited {
            self.clock.now()
        } else {
            self.clock.precise_now()
        };
        // Cloned and dropped outside of the lock: either may run anything.
        let mut waker = Some(waker.clone());
        let answer = self.enter(now, |turn| {
            let refusal = match turn.take(demand) {
                Ok(()) => {
                    turn.inside.counts.granted += 1;
                    return Ok(Asked::Granted(turn.stamp(), true));
                }
                Err(refusal) => refusal,
            };
            let never = matches!(refusal.reason, Reason::Closed | Reason::TooLarge);
            if never || demand.is_at_once() {
                return Err(self.refused(turn, demand, refusal));
            }
            match turn.enqueue(demand, refusal, Since::of(demand, turn.now)) {
                Ok(ticket) => match turn.inside.waiters.status(ticket) {
                    Some(Status::Granted(taken)) => {
                        turn.inside.waiters.free(ticket);
                        Ok(Asked::Granted(taken, true))
                    }
                    _ => {
                        turn.inside.waiters.set_waker(ticket, &mut waker);
                        Ok(Asked::Queued(ticket))
                    }
                },
                Err(refusal) => Err(self.refused(turn, demand, refusal)),
            }
        });
        if answer.is_err() {
            self.tick_if_due(now);
        }
        answer
    }

    fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Stamp, Denied>> {
        match self.look_at(ticket, waker) {
            Status::Waiting => Poll::Pending,
            Status::Granted(taken) => Poll::Ready(Ok(taken)),
            Status::Refused(reason) => Poll::Ready(Err(self.look(|rule, _, state, now| {
                let refusal = Refusal::until_returned().because(reason);
                self.denied(rule, refusal, state, now)
            }))),
        }
    }

    fn leave(&self, ticket: Ticket, cost: u64, reserved: bool) {
        Self::leave(self, ticket, cost, reserved);
    }

    fn cancel(&self, booking: u64, priority: Priority, how: Cancel) {
        self.enter(self.clock.precise_now(), |turn| {
            turn.cancel(booking, priority, how);
        });
    }

    fn redeem(&self, booking: u64, ready_at: Moment) -> Era {
        self.enter(self.clock.precise_now(), |turn| {
            if turn.inside.bookings.redeem(booking) {
                turn.inside.resets.era_at(ready_at)
            } else {
                Era::LOST
            }
        })
    }

    fn returns(&self) -> bool {
        R::RETURNS_PERMITS
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl<R: Rule> Core<R> {
    /// Looks at a place in the queue; see [`Waiters::poll`](crate::queue::Waiters::poll).
    pub(super) fn look_at(&self, ticket: Ticket, waker: &std::task::Waker) -> Status {
        let mut inside = lock(&self.inside);
        let (status, former) = inside.waiters.poll(ticket, waker);
        let status = status.unwrap_or(Status::Refused(Reason::Closed));
        if status != Status::Waiting {
            inside.waiters.free(ticket);
        }
        let rings = status == Status::Waiting && inside.alarm.at.is_known();
        drop(inside);
        drop(former);
        if rings {
            self.clock.attend();
        }
        status
    }

    /// Leaves a place in the queue, and returns what was granted to it and never read. What was reserved is refunded
    /// until its time, as any reservation.
    pub(super) fn leave(&self, ticket: Ticket, cost: u64, reserved: bool) {
        let now = self.clock.precise_now();
        // Its own waker is dropped when the lock is free, and not woken: its task waits no more.
        let _waker = self.enter(now, |turn| {
            let mut waker = None;
            match turn.inside.waiters.status(ticket) {
                Some(Status::Waiting) => {
                    turn.inside.forecast.forget();
                    waker = turn
                        .inside
                        .waiters
                        .settle(ticket, Status::Refused(Reason::Closed));
                    turn.emit_left(ticket, Left::ByItself);
                    turn.inside.counts.cancelled += 1;
                }
                Some(Status::Granted(taken))
                    if reserved && !R::RETURNS_PERMITS && turn.now > taken.at => {}
                Some(Status::Granted(taken)) => {
                    turn.put_back(taken, cost);
                    turn.emit_unread(ticket, taken.at);
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
}

impl<R: Rule> Turn<'_, R> {
    /// Joins the queue, evicting waiters as its settings say, and serves waiters that then fit. `since` is earlier than now
    /// for a caller that has waited for other limiters before.
    pub(super) fn enqueue(
        &mut self,
        demand: Demand,
        refusal: Refusal,
        since: Since,
    ) -> Result<Ticket, Refusal> {
        let Some(queue) = since.queue(self.inside.queue) else {
            return Err(refusal);
        };
        let class = demand.priority.class();
        let excess = self.excess(queue, demand.weight());
        let evicted = if excess == 0 {
            Evicted::NOBODY
        } else {
            let evictable = self.inside.waiters.evictable(class, queue.full, excess);
            let Some(evicted) = evictable else {
                return Err(refusal.because(Reason::QueueFull));
            };
            evicted
        };
        let own = demand.patience.deadline(self.now);
        let deadline = queue
            .timeout
            .map_or(own, |timeout| own.min(self.now.plus(timeout)));
        if deadline < self.now {
            return Err(refusal.because(Reason::TimedOut));
        }
        if deadline.is_known() && !R::RETURNS_PERMITS {
            let turn = self.turn_of(demand, evicted);
            if turn > deadline {
                return Err(refusal.because(Reason::TimedOut));
            }
        }
        let last = !matches!(self.order(), Order::Random { .. });
        if excess == 0 && last && !self.inside.waiters.any_for_several() && since.age == Age::NONE {
            let ticket = self.join(demand, deadline, since);
            // Nothing has changed for the waiters, and the new demand has just been refused.
            if self
                .inside
                .waiters
                .head(self.order())
                .is_some_and(|(head, _)| head == ticket)
            {
                self.inside.due = refusal.ready_at;
            }
            return Ok(ticket);
        }
        while self.excess(queue, demand.weight()) > 0 {
            let Some(ticket) = self.inside.waiters.next_to_evict(class, queue.full) else {
                break;
            };
            self.inside.counts.evicted += 1;
            self.refuse(ticket, Reason::Evicted);
        }
        let ticket = self.join(demand, deadline, since);
        self.serve();
        Ok(ticket)
    }

    /// Takes the last place of its class, or a random one, whatever the bound.
    pub(super) fn join(&mut self, demand: Demand, deadline: Moment, since: Since) -> Ticket {
        let class = demand.priority.class();
        let order = self.order();
        let Inside {
            waiters, forecast, ..
        } = &mut *self.inside;
        let Since { joined, age, .. } = since;
        let ticket = waiters.push((class, order), demand.cost, joined, deadline, age);
        if age == Age::NONE {
            forecast.joined(self.rule, class, demand.cost, order);
        } else {
            forecast.forget();
        }
        self.emit(EventKind::Enqueued {
            priority: demand.priority,
        });
        ticket
    }

    /// By how much a new demand of `weight` exceeds the bound.
    fn excess(&self, queue: Queue, weight: u64) -> u128 {
        let wanted = self.inside.waiters.weight() + u128::from(weight);
        let bound = u128::from(queue.bound);
        match queue.counts {
            Counts::Excess if self.rule.has_one_limit() => {
                let in_use = self.rule.in_use(self.state, self.now);
                let wanted = wanted + u128::from(in_use);
                wanted.saturating_sub(u128::from(self.rule.limit()) + bound)
            }
            Counts::Waiting | Counts::Excess => wanted.saturating_sub(bound),
        }
    }

    /// When `demand` would be served, behind the waiters that are served before it.
    pub(super) fn turn_of(&mut self, demand: Demand, evicted: Evicted) -> Moment {
        if R::RETURNS_PERMITS {
            return Moment::NEVER;
        }
        let order = self.order();
        let Inside {
            waiters, forecast, ..
        } = &mut *self.inside;
        let class = demand.priority.class();
        if waiters.is_empty() {
            let answer = peek(self.rule, self.state, self.now, demand.cost);
            return answer.map_or_else(|refusal| refusal.ready_at, |()| self.now);
        }
        if evicted.anybody() {
            // The forecast includes the waiters that are to be evicted.
            forecast.forget();
        }
        let before = || waiters.costs_before(class, order, evicted);
        let turn = forecast.turn_of(
            self.rule,
            self.state,
            self.now,
            (class, demand.cost),
            before,
        );
        if evicted.anybody() {
            forecast.forget();
        }
        turn
    }
}
