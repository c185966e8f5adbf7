//! Handing on: the short path under the lock, for a limit whose permits go from one task to the next.
//!
//! While demands wait for returned permits and for nothing else, a returned permit is granted to the head of the queue,
//! and a new demand joins the tail. Neither changes an alarm, an event or a deadline, and the state stays behind the
//! lock. So both skip [`enter`](Core::enter), which would give the same answer.

use std::task::Waker;

use super::asking::{peek, take};
use super::locked::Inside;
use super::looking::counts_excess;
use super::word::Core;
use crate::queue::{Order, Ticket};
use crate::sync::lock;
use crate::unwind::quietly;
use crate::wakeups::BATCH;
use crate::{Demand, Moment, Packed, Rule};

impl<R: Rule> Inside<R> {
    /// Whether waiters are served one by one, by returned permits and by nothing else.
    pub(super) fn is_plain(&self) -> bool {
        self.state.is_some()
            && self
                .queue
                .is_some_and(|queue| queue.order == Order::Fifo && queue.timeout.is_none())
            && !(self.closed || self.paused || self.due.is_known())
            && self.changed.is_none()
            && self.listeners.is_empty()
            && self.waiters.is_plain()
    }
}

impl<R: Rule> Core<R> {
    /// Whether permits are handed on: they are returned, and the rule does not depend on the time of the return.
    pub(super) const HANDS_ON: bool = R::RETURNS_PERMITS && R::Fast::TIMELESS;

    /// Joins the queue behind others, with the waker. `None` if the demand may be granted, or the slow path has more to do for it.
    #[inline(always)]
    pub(super) fn join(&self, demand: &Demand, waker: &mut Option<Waker>) -> Option<Ticket> {
        let now = self.clock.now();
        let mut inside = lock(&self.inside);
        let inside = &mut *inside;
        if !inside.plain {
            return None;
        }
        let (queue, state) = (inside.queue.as_ref()?, inside.state.as_ref()?);
        let class = demand.priority.class();
        let limit = self.rule.limit();
        if demand.cost > limit || !inside.waiters.any_at_least(class) {
            return None;
        }
        let now = inside.latest.max(now);
        let mut bound = u128::from(queue.bound);
        let mut wanted = inside.waiters.weight() + u128::from(demand.weight());
        if counts_excess(queue.counts, &self.rule) {
            bound += u128::from(limit);
            wanted += u128::from(self.rule.in_use(state, now));
        }
        if wanted > bound {
            return None;
        }
        inside.latest = now;
        inside.forecast.forget();
        let waiters = &mut inside.waiters;
        Some(waiters.push_last(class, demand.cost, now, waker))
    }

    /// Hands a permit that was granted at `taken`, and is returned, to the head of the queue. False if the slow path has to do it: then nothing
    /// has happened.
    #[inline(always)]
    pub(super) fn hand_on(&self, taken: Moment, cost: u64) -> bool {
        let mut inside = lock(&self.inside);
        let Some(Handed { to, more }) = self.hand_on_inside(&mut inside, taken, cost) else {
            return false;
        };
        drop(inside);
        if let Some(waker) = to {
            quietly(|| waker.wake());
        }
        if more {
            self.serve_more();
        }
        true
    }

    #[inline(never)]
    fn serve_more(&self) {
        self.enter(Moment::ORIGIN, |turn| turn.serve(BATCH));
    }

    #[inline(always)]
    fn hand_on_inside(&self, inside: &mut Inside<R>, taken: Moment, cost: u64) -> Option<Handed> {
        if !inside.plain {
            return None;
        }
        // When the queue is empty, the state goes back into the word.
        let front = inside.waiters.front()?;
        let state = inside.state.as_mut()?;
        let (rule, now) = (&self.rule, inside.latest);
        let limit = rule.limit();
        if front.cost > limit {
            return None;
        }
        inside.forecast.forget();
        rule.refund(state, now, taken, cost);
        if take(rule, state, now, front.cost).is_err() {
            return Some(Handed {
                to: None,
                more: false,
            });
        }
        // The rule is asked before the head is granted, because it may panic. A demand that will never fit is refused when it is the head.
        let more = front.next > limit || peek(rule, state, now, front.next).is_ok();
        inside.counts.granted += 1;
        let (ticket, to) = inside.waiters.hand_over(front);
        self.handed.tell(ticket);
        Some(Handed { to, more })
    }
}

/// The result of returning a permit to a queue.
struct Handed {
    /// The waker of the waiter that was granted.
    to: Option<Waker>,
    /// Whether the next waiter must be served too.
    more: bool,
}
