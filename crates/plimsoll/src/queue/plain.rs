//! Joining the tail and leaving from the head, while all waiters wait for this limiter alone and without a deadline.

use std::task::Waker;

use super::ticket::{Age, Status, Ticket};
use super::waiters::{Waiters, weight};
use crate::Moment;
use crate::stamp::Stamp;

/// The waiter that is served next, and the cost of the one after it.
#[derive(Clone, Copy)]
pub(crate) struct Front {
    index: u32,
    pub(crate) cost: u64,
    pub(crate) next: u64,
}

impl Waiters {
    /// Joins the tail of its class, and takes the waker.
    #[inline(always)]
    pub(crate) fn push_last(
        &mut self,
        class: usize,
        cost: u64,
        joined: Moment,
        waker: &mut Option<Waker>,
    ) -> Ticket {
        let index = self.allocate(class, cost, joined, Age::NONE);
        let list = &mut self.lists[class];
        let older = list.newest.replace(index);
        match older {
            Some(older) => self.nodes[older as usize].newer = Some(index),
            None => list.oldest = Some(index),
        }
        list.count += 1;
        self.queued += weight(cost);
        self.count += 1;
        let node = &mut self.nodes[index as usize];
        node.older = older;
        std::mem::swap(&mut node.waker, waker);
        Ticket {
            index,
            generation: node.generation,
        }
    }

    /// The first two in the order of a fifo queue; `None` if there are fewer.
    #[inline]
    pub(crate) fn front(&self) -> Option<Front> {
        let mut lists = self.lists.iter().rev();
        let index = lists.find_map(|list| list.oldest)?;
        let node = &self.nodes[index as usize];
        let next = node.newer.or_else(|| lists.find_map(|list| list.oldest))?;
        Some(Front {
            index,
            cost: node.cost,
            next: self.nodes[next as usize].cost,
        })
    }

    /// Takes the first waiter out of the queue. Its place is free at once, because the waiter reads its grant from a
    /// cell.
    #[inline]
    pub(crate) fn hand_over(&mut self, front: Front) -> (Ticket, Option<Waker>) {
        let node = &mut self.nodes[front.index as usize];
        let ticket = Ticket {
            index: front.index,
            generation: node.generation,
        };
        node.generation += 1;
        node.status = Status::Granted(Stamp::UNDATED);
        let waker = node.waker.take();
        let list = &mut self.lists[node.class];
        let newer = std::mem::replace(&mut node.newer, self.free);
        self.free = Some(front.index);
        list.oldest = newer;
        list.count -= 1;
        match newer {
            Some(newer) => self.nodes[newer as usize].older = None,
            None => list.newest = None,
        }
        self.queued -= weight(front.cost);
        self.count -= 1;
        (ticket, waker)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Order;
    use super::*;

    fn costs(waiters: &Waiters) -> Vec<u64> {
        let head = waiters.head(Order::Fifo);
        let all = std::iter::successors(head, |(ticket, _)| waiters.after(*ticket, Order::Fifo));
        all.map(|(_, cost)| cost).collect()
    }

    #[test]
    fn the_short_way_leaves_the_line_as_the_long_one_does() {
        let (mut short, mut long) = (Waiters::default(), Waiters::default());
        for (cost, class) in [(1, 1), (2, 0), (3, 1), (4, 2), (5, 0)] {
            short.push_last(class, cost, Moment::ORIGIN, &mut None);
            let place = (class, Order::Fifo);
            long.push(place, cost, Moment::ORIGIN, Moment::NEVER, Age::NONE);
        }
        while let Some(front) = short.front() {
            assert_eq!(costs(&short), costs(&long));
            assert_eq!(short.weight(), long.weight());
            let (ticket, _) = short.hand_over(front);
            assert_eq!(short.status(ticket), None);
            // In a queue that was made random, no waiter may join at the end.
            assert_ne!(short.nodes[ticket.index()].status, Status::Waiting);
            let (head, cost) = long.head(Order::Fifo).expect("as many");
            assert_eq!(cost, front.cost);
            long.settle(head, Status::Waiting);
        }
        assert_eq!((short.count(), long.count()), (1, 1));
        assert_eq!(costs(&short), costs(&long));
        // Places are used again, by owners of a later generation.
        let again = short.push_last(1, 9, Moment::ORIGIN, &mut None);
        assert_eq!((again.index() < 5, again.generation()), (true, 1));
        assert_eq!(costs(&short), [9, 5]);
    }
}
