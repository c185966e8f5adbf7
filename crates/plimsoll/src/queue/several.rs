//! Demands that wait for several limiters at once.
//!
//! Such a waiter is not served by one queue: it is *offered* its turn, and takes from all of its limiters at once when all
//! of them have room. Until then its place is reserved.

use std::task::Waker;

use super::ticket::{Age, Status, Ticket};
use super::waiters::{Link, Waiters};
use super::{Order, Queue};
use crate::{Demand, Moment};

/// The age of a waiter: the moment from which it has waited, by the clock of the queue.
#[derive(Clone, Copy)]
pub(crate) struct Since {
    pub(crate) joined: Moment,
    pub(crate) age: Age,
    /// The bound of the queue when the wait began. It applies to this waiter even if the bound has changed since.
    pub(crate) room: u64,
}

impl Since {
    /// The bound for a waiter that no queue refuses.
    pub(crate) const KEPT: u64 = u64::MAX;

    /// The age of a waiter that begins to wait now, for one limiter only.
    pub(crate) const fn of(demand: Demand, now: Moment) -> Self {
        Self {
            joined: now,
            age: Age::NONE,
            room: if demand.is_kept() { Self::KEPT } else { 0 },
        }
    }

    /// The queue with the bound that applies to this waiter.
    pub(crate) fn queue(self, queue: Option<Queue>) -> Option<Queue> {
        let mut queue = match queue {
            Some(queue) => queue,
            None if self.room == 0 => return None,
            None => Queue::fifo(0),
        };
        queue.bound = queue.bound.max(self.room);
        if self.room == Self::KEPT {
            queue.timeout = None;
        }
        Some(queue)
    }
}

impl Waiters {
    /// Whether any waiter of this queue also waits in another.
    pub(crate) fn any_for_several(&self) -> bool {
        self.several > 0
    }

    /// The waiter behind which a waiter of this age belongs. All queues agree on the order of waiters for several limiters: a waiter
    /// that is behind another in one queue is before it in none.
    pub(super) fn older_than(&self, class: usize, joined: Moment, age: Age) -> Link {
        let older = |index: u32| self.nodes[index as usize].older;
        let mut place = self.lists[class].newest;
        if self.several > 1 {
            let mut at = place;
            while let Some(index) = at {
                let other = self.nodes[index as usize].age;
                at = older(index);
                if other > age {
                    place = at;
                } else if other != Age::NONE {
                    break;
                }
            }
        }
        while let Some(index) = place {
            let node = &self.nodes[index as usize];
            if node.age != Age::NONE || node.joined <= joined {
                break;
            }
            place = node.older;
        }
        place
    }

    /// The waiter that is served after `ticket`, and its cost.
    pub(crate) fn after(&self, ticket: Ticket, order: Order) -> Option<(Ticket, u64)> {
        let node = &self.nodes[ticket.index as usize];
        let next = match order {
            Order::Fifo | Order::Random { .. } => node.newer,
            Order::Lifo => node.older,
        };
        let lower = || {
            let lists = self.lists[..node.class].iter().rev();
            lists.into_iter().find_map(|list| match order {
                Order::Fifo | Order::Random { .. } => list.oldest,
                Order::Lifo => list.newest,
            })
        };
        let index = next.or_else(lower)?;
        Some((self.ticket(index), self.nodes[index as usize].cost))
    }

    /// Whether the owner of a place waits for other limiters too.
    pub(crate) fn waits_for_several(&self, ticket: Ticket) -> bool {
        self.nodes[ticket.index as usize].age != Age::NONE
    }

    /// Notifies the owner of a place, once, that there is room for it.
    pub(crate) fn offer(&mut self, ticket: Ticket) -> Option<Waker> {
        let node = &mut self.nodes[ticket.index as usize];
        if std::mem::replace(&mut node.offered, true) {
            return None;
        }
        node.waker.take()
    }

    /// Withdraws the notification: there is no room for the waiter after all.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        self.nodes[ticket.index as usize].offered = false;
    }

    /// Whether the owner of a place was notified that there is room for it.
    pub(crate) fn is_offered(&self, ticket: Ticket) -> bool {
        self.nodes[ticket.index as usize].offered
    }

    /// Takes the waker out of a place whose owner is about to take.
    pub(crate) fn take_offered_waker(&mut self, ticket: Ticket) -> Option<Waker> {
        self.status(ticket)?;
        let node = &mut self.nodes[ticket.index as usize];
        node.waker.take_if(|_| node.offered)
    }

    /// The sum that is reserved for waiters before `ticket`, in the order of service; `None` if it is not the turn of `ticket`.
    pub(crate) fn reserved_before(&self, ticket: Ticket, order: Order) -> Option<u64> {
        if order == Order::Lifo {
            // The deadline of the waiter may have passed since its owner polled.
            let waits = self.status(ticket) == Some(Status::Waiting);
            return waits.then_some(0);
        }
        let mut next = self.head(order);
        let mut reserved = 0;
        while let Some((other, cost)) = next {
            if other == ticket {
                return Some(reserved);
            }
            if !self.waits_for_several(other) {
                return None;
            }
            if reserved == 0 {
                reserved = cost;
            }
            next = self.after(other, order);
        }
        None
    }

    /// The sum that is reserved for waiters that are served before a new demand of `class`; `None` if one of them waits for this
    /// limiter only, and so cannot be passed.
    pub(crate) fn reserved_from(&self, class: usize) -> Option<u64> {
        let mut next = self.head(Order::Fifo);
        let mut reserved = 0;
        while let Some((other, cost)) = next {
            if self.nodes[other.index as usize].class < class {
                break;
            }
            if !self.waits_for_several(other) {
                return None;
            }
            if reserved == 0 {
                reserved = cost;
            }
            next = self.after(other, Order::Fifo);
        }
        Some(reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    /// In a queue that is served from the end such a place was granted a second time.
    #[test]
    fn a_place_whose_time_is_over_has_no_turn_in_any_order() {
        for order in [Order::Fifo, Order::Lifo, Order::Random { seed: Some(1) }] {
            let mut waiters = Waiters::default();
            let ticket = waiters.push((1, order), 1, Moment::ORIGIN, Moment::NEVER, Age::NONE);
            assert_eq!(waiters.reserved_before(ticket, order), Some(0));
            waiters.settle(ticket, Status::Refused(Reason::TimedOut));
            assert_eq!(waiters.reserved_before(ticket, order), None);
        }
    }
}
