//! What is behind the lock of a gate: the state while it is there, those who wait, and every decision
//! that concerns them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::alarm::Alarm;
use super::bookings::Bookings;
use super::core::Core;
use super::forecast::Forecast;
use super::resets::Resets;
use crate::events::{EventKind, Feed};
use crate::queue::{Age, Counts, Evicted, Order, Queue, Since, Ticket, Waiters};
use crate::stamp::Stamp;
use crate::woken::Woken;
use crate::{Demand, Moment, Reason, Refusal, Rule};

pub(super) struct Inside<R: Rule> {
    /// The gate itself, for those who need it for longer than a call.
    pub(super) me: Weak<Core<R>>,
    /// The state, while it is here and not in the word.
    pub(super) state: Option<R::State>,
    /// The rule that has taken the place of the gate's own. A gate whose limit was changed keeps its state
    /// here for good: the short way is for limits that never change.
    pub(super) changed: Option<Arc<R>>,
    pub(super) closed: bool,
    pub(super) resets: Resets,
    /// The latest moment seen behind the lock. Time that steps back stands still there, so that what is granted is granted
    /// at the moment at which the rule records it.
    pub(super) latest: Moment,
    pub(super) queue: Option<Queue>,
    pub(super) waiters: Waiters,
    pub(super) bookings: Bookings,
    pub(super) forecast: Forecast<R::State>,
    /// When the head of the queue is served if nothing else happens.
    pub(super) due: Moment,
    pub(super) alarm: Alarm,
    pub(super) counts: Tally,
    /// Those who want to know what happens. While there are any, the state stays here.
    pub(super) listeners: Vec<Arc<Feed>>,
}

impl<R: Rule> Inside<R> {
    pub(super) fn new(queue: Option<Queue>) -> Self {
        Self {
            me: Weak::new(),
            state: None,
            changed: None,
            closed: false,
            resets: Resets::default(),
            latest: Moment::ORIGIN,
            queue,
            waiters: Waiters::default(),
            bookings: Bookings::default(),
            forecast: Forecast::nothing(),
            due: Moment::NEVER,
            alarm: Alarm::new(),
            counts: Tally::default(),
            listeners: Vec::new(),
        }
    }

    /// The moment at which something happens behind the lock for one who came at `now`.
    #[inline]
    pub(super) fn not_before(&mut self, now: Moment) -> Moment {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(super) fn order(&self) -> Order {
        self.queue.map_or(Order::Fifo, |queue| queue.order)
    }
}

/// What is counted behind the lock.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) granted: u64,
    /// Grants that were taken back, wherever they had been counted.
    pub(super) undone: u64,
    pub(super) denied: u64,
    pub(super) evicted: u64,
    pub(super) cancelled: u64,
}

/// The part of a gate that an operation behind the lock works on.
pub(super) struct Turn<'a, R: Rule> {
    pub(super) rule: &'a R,
    pub(super) inside: &'a mut Inside<R>,
    pub(super) state: &'a mut R::State,
    pub(super) now: Moment,
    pub(super) woken: &'a mut Woken,
}

impl<R: Rule> Turn<'_, R> {
    pub(super) fn order(&self) -> Order {
        self.inside.order()
    }

    /// When what is granted in this turn is granted.
    pub(super) fn stamp(&self) -> Stamp {
        // On the fast path others may have come further than this turn knows.
        let at = self.rule.recorded_at(self.state, self.now);
        self.inside.resets.stamp(at)
    }

    /// As if so much had not been taken then; says whether that was after the last reset, which has made good what was
    /// taken before. What a permit of a limit that is given back to holds, no reset gives back.
    pub(super) fn put_back(&mut self, taken: Stamp, cost: u32) -> bool {
        if !R::RETURNS_PERMITS && !self.inside.resets.are_before(taken) {
            return false;
        }
        self.rule.refund(self.state, self.now, taken.at, cost);
        self.inside.forecast.forget();
        true
    }

    /// Forgets what was taken so far, on a clock that may be late by `late`.
    pub(super) fn reset(&mut self, late: Duration) {
        self.inside.bookings.clear();
        self.inside.resets.reset(self.now, late);
    }

    /// Whether a newcomer may be served before those who wait.
    pub(super) fn may_pass(&self, demand: Demand) -> bool {
        self.inside.waiters.is_empty()
            || self.order() == Order::Lifo
            || !self.inside.waiters.any_at_least(demand.priority.class())
    }

    /// Whether the demand can be granted now or ever.
    pub(super) fn admissible(&self, demand: Demand) -> Result<(), Refusal> {
        if self.inside.closed {
            return Err(Refusal::until_returned().because(Reason::Closed));
        }
        if demand.cost > self.rule.limit() {
            return Err(Refusal::until_returned().because(Reason::TooLarge));
        }
        Ok(())
    }

    /// Takes now, or says why not.
    pub(super) fn take(&mut self, demand: Demand) -> Result<(), Refusal> {
        self.admissible(demand)?;
        if !self.may_pass(demand) {
            self.fits_beside(demand)?;
        }
        take(self.rule, self.state, self.now, demand.cost)?;
        self.inside.forecast.forget();
        self.tell(EventKind::Processing {
            priority: demand.priority,
        });
        Ok(())
    }

    /// Why a demand is refused that may not pass those who wait: for the reason of the rule, if it has one. When it
    /// would be granted is for the queue to say.
    pub(super) fn behind_waiters(&self, demand: Demand) -> Refusal {
        let refusal = peek(self.rule, self.state, self.now, demand.cost).err();
        let reason = refusal.map_or(Reason::Exhausted, |refusal| refusal.reason);
        Refusal::until(Moment::NEVER).because(reason)
    }

    /// What [`take`](Self::take) would answer.
    pub(super) fn peek(&self, demand: Demand) -> Result<(), Refusal> {
        self.admissible(demand)?;
        if !self.may_pass(demand) {
            return self.fits_beside(demand);
        }
        peek(self.rule, self.state, self.now, demand.cost)
    }

    /// Completes a refusal that the rule has counted: while others wait, when it could be granted depends on them too.
    pub(super) fn explain(&mut self, demand: Demand, mut refusal: Refusal) -> Refusal {
        let for_others = matches!(refusal.reason, Reason::QueueFull | Reason::TimedOut);
        if !self.inside.waiters.is_empty() && (for_others || refusal.reason.is_passing()) {
            refusal.ready_at = self.hint(demand);
        }
        refusal
    }

    /// When `demand` would be granted if nobody but those who wait came, for the refused. With waiters in a lifo
    /// queue nobody can promise anything.
    fn hint(&mut self, demand: Demand) -> Moment {
        let order = self.order();
        if R::RETURNS_PERMITS || order == Order::Lifo {
            return Moment::NEVER;
        }
        let Inside {
            waiters, forecast, ..
        } = &mut *self.inside;
        let class = demand.priority.class();
        let before = || waiters.costs_before(class, order, Evicted::NOBODY);
        let below = || waiters.costs_below(class);
        let asked = (class, demand.cost);
        forecast.return_of(self.rule, self.state, self.now, asked, (before, below))
    }

    /// When it would be the turn of `demand` behind those who are served before it.
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
            // Those who are to go are part of what the forecast knows.
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

    /// Joins the queue, making room as the queue says, and serves whoever can then run.
    pub(super) fn enqueue(&mut self, demand: Demand, refusal: Refusal) -> Result<Ticket, Refusal> {
        let since = Since::now(self.now);
        self.enqueue_since(demand, refusal, since)
    }

    /// [`enqueue`](Self::enqueue), by one who has waited elsewhere since a moment of this clock.
    pub(super) fn enqueue_since(
        &mut self,
        demand: Demand,
        refusal: Refusal,
        since: Since,
    ) -> Result<Ticket, Refusal> {
        let Some(queue) = self.inside.queue else {
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
        if excess == 0 && !self.inside.waiters.any_for_several() && since.age == Age::NONE {
            let ticket = self.join(demand, deadline);
            // Nothing has changed for those who wait, and the newcomer has just been refused.
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
        let ticket = self.join_since(demand, deadline, since);
        self.serve();
        Ok(ticket)
    }

    /// Takes the last place of its class, whatever the bound.
    pub(super) fn join(&mut self, demand: Demand, deadline: Moment) -> Ticket {
        let since = Since::now(self.now);
        self.join_since(demand, deadline, since)
    }

    fn join_since(&mut self, demand: Demand, deadline: Moment, since: Since) -> Ticket {
        let class = demand.priority.class();
        let order = self.order();
        let Inside {
            waiters, forecast, ..
        } = &mut *self.inside;
        let Since { joined, age } = since;
        let ticket = waiters.push(class, demand.cost, joined, deadline, age);
        if age == Age::NONE {
            forecast.joined(self.rule, class, demand.cost, order);
        } else {
            forecast.forget();
        }
        self.tell(EventKind::Enqueued {
            priority: demand.priority,
        });
        ticket
    }

    /// By how much a newcomer of `weight` exceeds the bound.
    fn excess(&self, queue: Queue, weight: u64) -> u64 {
        let wanted = self.inside.waiters.queued() + weight;
        let bound = u64::from(queue.bound);
        match queue.counts {
            Counts::Excess if self.rule.has_one_limit() => {
                let in_use = self.rule.in_use(self.state, self.now);
                (in_use + wanted).saturating_sub(u64::from(self.rule.limit()) + bound)
            }
            Counts::Waiting | Counts::Excess => wanted.saturating_sub(bound),
        }
    }
}

/// Takes `cost`; a cost of 0 takes nothing, and fits when 1 would.
pub(crate) fn take<R: Rule>(
    rule: &R,
    state: &mut R::State,
    now: Moment,
    cost: u32,
) -> Result<(), Refusal> {
    if cost > 0 {
        return rule.take(state, now, cost);
    }
    peek(rule, state, now, 0)
}

/// What [`take`] would answer.
pub(super) fn peek<R: Rule>(
    rule: &R,
    state: &R::State,
    now: Moment,
    cost: u32,
) -> Result<(), Refusal> {
    rule.peek(state, now, cost.max(1))
}
