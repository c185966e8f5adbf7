//! Handing on: the short way through the lock for a limit whose permits go from one task to the next.
//!
//! While demands wait for returned permits and nothing else goes on, a permit that is returned is granted to the head of the
//! queue, and whoever joins stands behind others. Neither changes what the clock, a subscriber or a deadline would have to
//! be told, and the state stays where it is. So neither takes the detour through [`enter`](Core::enter), whose answer to
//! the same demand is the same.

use std::task::Waker;

use super::asking::peek;
use super::locked::Inside;
use super::looking::counts_excess;
use super::word::Core;
use crate::demand::Patience;
use crate::queue::{Age, Order, Queue, Status, Ticket};
use crate::stamp::Stamp;
use crate::sync::lock;
use crate::unwind::quietly;
use crate::wakeups::BATCH;
use crate::{Demand, Moment, Packed, Rule};

impl<R: Rule> Inside<R> {
    /// The queue, if its waiters are served one after the other by returned permits, and by nothing else.
    fn plain_queue(&self) -> Option<Queue> {
        let queue = self.queue?;
        let plain = queue.order == Order::Fifo
            && !(self.closed || self.paused || self.due.is_known())
            && self.changed.is_none()
            && self.listeners.is_empty()
            && self.waiters.is_plain();
        plain.then_some(queue)
    }
}

impl<R: Rule> Core<R> {
    /// Whether permits are handed on: they are returned, and when that is does not matter.
    const HANDS_ON: bool = R::RETURNS_PERMITS && R::Fast::TIMELESS;

    /// Joins the queue behind others, with the waker. `None` if that takes more than that.
    #[inline]
    pub(super) fn join(
        &self,
        now: Moment,
        demand: Demand,
        waker: &mut Option<Waker>,
    ) -> Option<Ticket> {
        if !Self::HANDS_ON || demand.cost == 0 || demand.patience != Patience::Unlimited {
            return None;
        }
        let mut inside = lock(&self.inside);
        let inside = &mut *inside;
        let queue = inside
            .plain_queue()
            .filter(|queue| queue.timeout.is_none())?;
        let class = demand.priority.class();
        let state = inside.state.as_ref()?;
        if demand.cost > self.rule.limit() || !inside.waiters.any_at_least(class) {
            return None;
        }
        let now = inside.latest.max(now);
        let mut bound = u128::from(queue.bound);
        let mut wanted = inside.waiters.weight() + u128::from(demand.weight());
        if counts_excess(queue.counts, &self.rule) {
            bound += u128::from(self.rule.limit());
            wanted += u128::from(self.rule.in_use(state, now));
        }
        if wanted > bound {
            return None;
        }
        inside.latest = now;
        let place = (class, Order::Fifo);
        let waiters = &mut inside.waiters;
        let ticket = waiters.push(place, demand.cost, now, Moment::NEVER, Age::NONE);
        waiters.set_waker(ticket, waker);
        inside.forecast.forget();
        Some(ticket)
    }

    /// Returns what was taken then to the head of the queue. False if that takes more than that: then nothing has
    /// happened.
    #[inline]
    pub(super) fn hand_on(&self, taken: Moment, cost: u64) -> bool {
        if !Self::HANDS_ON {
            return false;
        }
        let mut inside = lock(&self.inside);
        let Some((waker, more)) = inside.hand_on(&self.rule, taken, cost) else {
            return false;
        };
        let now = inside.latest;
        drop(inside);
        if let Some(waker) = waker {
            quietly(|| waker.wake());
        }
        if more {
            self.enter(now, |turn| turn.serve(BATCH));
        }
        true
    }
}

impl<R: Rule> Inside<R> {
    /// Whom to wake, and whether the next waiter is to be served too.
    fn hand_on(&mut self, rule: &R, taken: Moment, cost: u64) -> Option<(Option<Waker>, bool)> {
        let _plain = self.plain_queue()?;
        let (ticket, head) = self.waiters.head(Order::Fifo)?;
        // When nobody waits any more, the state goes back into the word.
        let (_, next) = self.waiters.after(ticket, Order::Fifo)?;
        let state = self.state.as_mut()?;
        if head > rule.limit() {
            return None;
        }
        let now = self.latest;
        self.forecast.forget();
        rule.refund(state, now, taken, cost);
        if rule.take(state, now, head).is_err() {
            return Some((None, false));
        }
        // Asked before the head is granted: a rule may panic. What will never fit is refused when it comes to the head.
        let more = next > rule.limit() || peek(rule, state, now, next).is_ok();
        self.counts.granted += 1;
        let granted = Status::Granted(Stamp::UNDATED);
        Some((self.waiters.settle(ticket, granted), more))
    }
}
