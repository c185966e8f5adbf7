//! Waiting: asking with a waker, joining the queue, and leaving it.

use std::task::{Poll, Waker};

use super::asking::is_for_want_of_room;
use super::locked::{Inside, Turn};
use super::looking::counts_excess;
use super::word::{ByWord, Core};
use crate::acquire::{Asked, Cancel, Queueing};
use crate::clock::Clock;
use crate::demand::Patience;
use crate::events::EventKind;
use crate::grant::Era;
use crate::queue::{Age, Evicted, Order, Since, Status, Ticket};
use crate::stamp::Stamp;
use crate::sync::{Ordering, lock};
use crate::wakeups::BATCH;
use crate::{Demand, Denied, Grant, Moment, Outcome, Packed, Priority, Reason, Refusal, Rule};

impl<R: Rule> Queueing for Core<R> {
    fn ask(&self, demand: &Demand, waker: &Waker) -> Result<Asked, Denied> {
        let now = if R::Fast::TIMELESS {
            Some(Moment::ORIGIN)
        } else {
            self.clock.now_if(!self.is_parked())
        };
        if let Some(at) = now
            && demand.cost > 0
            && matches!(self.take_by_word(at, demand.cost), ByWord::Granted)
        {
            self.totals.granted();
            let era = Era::default();
            return Ok(Asked::Granted(Stamp { at, era }, !R::Fast::TIMELESS));
        }
        let patient = R::RETURNS_PERMITS
            && demand.patience == Patience::Unlimited
            && self.patient.load(Ordering::Relaxed);
        // Cloned and dropped outside of the lock: either may run anything.
        let mut waker = Some(waker.clone());
        if Self::HANDS_ON
            && patient
            && demand.cost > 0
            && let Some(ticket) = self.join(demand, &mut waker)
        {
            self.handed.prepare(ticket);
            return Ok(Asked::Queued(ticket));
        }
        self.ask_inside(*demand, waker, patient)
    }

    #[inline]
    fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Stamp, Denied>> {
        if Self::HANDS_ON && self.handed.has(ticket) {
            return Poll::Ready(Ok(Stamp::UNDATED));
        }
        self.poll_inside(ticket, waker)
    }

    fn leave(&self, ticket: Ticket, demand: Demand, reserved: bool) {
        let now = self.clock.precise_now();
        // Its own waker is dropped when the lock is free, and not woken: its task no longer waits.
        let _waker = self.enter(now, |turn| {
            let mut waker = None;
            match turn.inside.waiters.status(ticket) {
                Some(Status::Waiting) => {
                    turn.inside.forecast.forget();
                    waker = turn
                        .inside
                        .waiters
                        .settle(ticket, Status::Refused(Reason::Closed));
                    turn.emit_left(ticket, Status::Waiting);
                    turn.inside.counts.cancelled += 1;
                }
                Some(Status::Granted(taken))
                    if reserved && !R::RETURNS_PERMITS && turn.now > taken.at => {}
                Some(Status::Granted(taken)) => {
                    turn.put_back_unread(taken, demand);
                }
                Some(Status::Refused(_)) => {}
                // Its place was free when it was handed a permit.
                None if Self::HANDS_ON => {
                    turn.put_back_unread(Stamp::UNDATED, demand);
                    turn.serve(BATCH);
                    return None;
                }
                None => return None,
            }
            turn.inside.waiters.free(ticket);
            turn.serve(BATCH);
            waker
        });
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
    /// Takes under the lock or joins the queue. `patient` says that the demand waits for returned permits, without a
    /// time-out.
    #[inline(never)]
    fn ask_inside(
        &self,
        demand: Demand,
        mut waker: Option<Waker>,
        patient: bool,
    ) -> Result<Asked, Denied> {
        // A wait for a refill needs the precise time. A wait for returned permits does not.
        let now = if patient {
            self.clock.now()
        } else {
            self.clock.precise_now()
        };
        let joins = |turn: &Turn<'_, R>| turn.joins_in_any_case(demand);
        let answer = self.enter_unless(now, joins, |turn| {
            let refusal = match turn.take(demand) {
                Ok(()) => return Ok(Asked::Granted(turn.stamp(), true)),
                Err(refusal) => refusal,
            };
            let joined = if is_for_want_of_room(refusal.reason) && !demand.is_at_once() {
                turn.enqueue(demand, refusal, Since::of(demand, turn.now))
            } else {
                Err(refusal)
            };
            let ticket = joined.map_err(|refusal| self.refused(turn, demand, refusal))?;
            let waiters = &mut turn.inside.waiters;
            if let Some(Status::Granted(taken)) = waiters.status(ticket) {
                waiters.free(ticket);
                return Ok(Asked::Granted(taken, true));
            }
            waiters.set_waker(ticket, &mut waker);
            Ok(Asked::Queued(ticket))
        });
        match answer {
            Ok(Asked::Queued(ticket)) if Self::HANDS_ON => self.handed.prepare(ticket),
            Ok(_) => {}
            Err(_) => self.tick_if_due(now),
        }
        answer
    }

    #[inline(never)]
    fn poll_inside(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Stamp, Denied>> {
        let mut inside = lock(&self.inside);
        let (status, former) = inside.waiters.poll(ticket, waker);
        match status {
            None | Some(Status::Waiting) => {}
            Some(_) => inside.waiters.free(ticket),
        }
        let rings = inside.alarm.at.is_known();
        drop(inside);
        drop(former);
        match status {
            Some(Status::Waiting) => {
                if rings {
                    self.clock.attend();
                }
                Poll::Pending
            }
            Some(Status::Granted(taken)) => Poll::Ready(Ok(taken)),
            Some(Status::Refused(reason)) => Poll::Ready(Err(self.lost(reason))),
            // It was handed a permit after it had looked.
            None if Self::HANDS_ON => Poll::Ready(Ok(Stamp::UNDATED)),
            None => Poll::Ready(Err(self.lost(Reason::Closed))),
        }
    }
}

impl<R: Rule> Turn<'_, R> {
    /// Undoes the grant of a waiter that left without reading it.
    fn put_back_unread(&mut self, taken: Stamp, demand: Demand) {
        self.put_back(taken, demand.cost);
        let grant = Grant::of(demand.cost(0)).taken(taken.at).timed(true);
        self.emit_processed(grant, Outcome::Ignore);
        self.inside.counts.undone += 1;
        self.inside.counts.cancelled += 1;
    }

    /// Whether a new demand joins at the end and waits in any case, while the waiters that are due have an alarm that is still to
    /// ring. If each new demand served the waiters that are due, a task would be woken for each of them.
    fn joins_in_any_case(&self, demand: Demand) -> bool {
        let (inside, class) = (&*self.inside, demand.priority.class());
        let Some(queue) = inside.queue else {
            return false;
        };
        let wanted = inside.waiters.weight() + u128::from(demand.weight());
        inside.alarm.at.is_known()
            && inside.alarm.at > self.now
            && queue.order == Order::Fifo
            && queue.timeout.is_none()
            && demand.cost > 0
            && demand.patience == Patience::Unlimited
            && !(inside.closed || inside.paused)
            && !inside.waiters.any_below(class)
            && !inside.waiters.any_for_several()
            && wanted <= u128::from(queue.bound)
            && u128::from(self.rule.available(self.state, self.now)) < wanted
    }

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
        // By how much the demand exceeds the bound.
        let mut bound = u128::from(queue.bound);
        let mut wanted = self.inside.waiters.weight() + u128::from(demand.weight());
        if counts_excess(queue.counts, self.rule) {
            bound += u128::from(self.rule.limit());
            wanted += u128::from(self.rule.in_use(self.state, self.now));
        }
        let mut excess = wanted.saturating_sub(bound);
        let evicted = if excess == 0 {
            Evicted::NOBODY
        } else {
            let evictable = self.inside.waiters.evictable(class, queue.full, excess);
            let Some(evicted) = evictable else {
                return Err(refusal.with_reason(Reason::QueueFull));
            };
            evicted
        };
        let own = demand.patience.deadline(self.now);
        let deadline = queue
            .timeout
            .map_or(own, |timeout| own.min(self.now.plus(timeout)));
        if deadline < self.now
            || (deadline.is_known()
                && !R::RETURNS_PERMITS
                && self.turn_of(demand, evicted) > deadline)
        {
            return Err(refusal.with_reason(Reason::TimedOut));
        }
        let order = self.order();
        let alone = since.age == Age::NONE;
        // Then nothing changes for the waiters, and the new demand has just been refused.
        let last = excess == 0
            && alone
            && !matches!(order, Order::Random { .. })
            && !self.inside.waiters.any_for_several();
        while excess > 0
            && let Some((ticket, weight)) = self.inside.waiters.next_to_evict(class, queue.full)
        {
            excess = excess.saturating_sub(weight);
            self.inside.counts.evicted += 1;
            self.settle(ticket, Status::Refused(Reason::Evicted));
        }
        let Inside {
            waiters, forecast, ..
        } = &mut *self.inside;
        let Since { joined, age, .. } = since;
        let ticket = waiters.push((class, order), demand.cost, joined, deadline, age);
        if alone {
            forecast.joined(self.rule, class, demand.cost, order);
        } else {
            forecast.forget();
        }
        self.emit(EventKind::Enqueued {
            priority: demand.priority,
        });
        if !last {
            self.serve(BATCH);
        } else if self
            .inside
            .waiters
            .head(order)
            .is_some_and(|(head, _)| head == ticket)
        {
            self.inside.due = refusal.ready_at;
        }
        Ok(ticket)
    }
}
