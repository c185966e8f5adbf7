use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use super::chance::Chance;
use super::evicted::Evicted;
use super::ticket::{Age, Status, Ticket};
use super::{Full, Order};
use crate::{Moment, Priority};

/// The waiters: one list for each class, from the oldest to the newest, all in one arena.
///
/// Entering, leaving and being served take constant time and, once the arena has grown, no
/// allocation.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    pub(super) nodes: Vec<Node>,
    pub(super) free: Link,
    pub(super) lists: [List; Priority::CLASSES],
    /// The sum of the weights of all waiters.
    pub(super) queued: u128,
    pub(super) count: usize,
    /// The number of waiters that wait for several limiters at once.
    pub(super) several: usize,
    pub(super) chance: Chance,
    /// Deadlines of waiters. The entry of a waiter that leaves early stays until it reaches the top.
    deadlines: BinaryHeap<Reverse<(Moment, Ticket)>>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) cost: u64,
    pub(super) joined: Moment,
    pub(super) class: usize,
    pub(super) age: Age,
    /// For a waiter for several limiters: whether it was woken because there is room for it here.
    pub(super) offered: bool,
    pub(super) status: Status,
    pub(super) waker: Option<Waker>,
    pub(super) generation: u64,
    pub(super) older: Link,
    pub(super) newer: Link,
}

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) oldest: Link,
    pub(super) newest: Link,
    pub(super) count: usize,
}

pub(super) type Link = Option<u32>;

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The sum of the weights of all waiters.
    pub(crate) fn weight(&self) -> u128 {
        self.queued
    }

    /// The sum of the weights, as a number for reports.
    pub(crate) fn queued(&self) -> u64 {
        u64::try_from(self.queued).unwrap_or(u64::MAX)
    }

    /// Whether there is a waiter of this class or a higher one.
    #[inline]
    pub(crate) fn any_at_least(&self, class: usize) -> bool {
        self.lists[class..].iter().any(|list| list.oldest.is_some())
    }

    /// Whether there is a waiter of a lower class.
    pub(crate) fn any_below(&self, class: usize) -> bool {
        self.lists[..class].iter().any(|list| list.oldest.is_some())
    }

    /// Whether all waiters wait for this limiter alone, and without a deadline.
    pub(crate) fn is_plain(&self) -> bool {
        self.several == 0 && self.deadlines.is_empty()
    }

    /// Joins the end of its class, or a random place; a waiter for several limiters, behind the waiters that are older.
    pub(crate) fn push(
        &mut self,
        (class, order): (usize, Order),
        cost: u64,
        joined: Moment,
        deadline: Moment,
        age: Age,
    ) -> Ticket {
        let older = match order {
            _ if age != Age::NONE => {
                self.several += 1;
                self.older_than(class, joined, age)
            }
            Order::Random { seed } => self.random_place(class, seed),
            Order::Fifo | Order::Lifo => self.lists[class].newest,
        };
        let index = self.allocate(class, cost, joined, age);
        let newer = match older {
            Some(older) => self.nodes[older as usize].newer.replace(index),
            None => self.lists[class].oldest.replace(index),
        };
        match newer {
            Some(newer) => self.nodes[newer as usize].older = Some(index),
            None => self.lists[class].newest = Some(index),
        }
        let node = &mut self.nodes[index as usize];
        (node.older, node.newer) = (older, newer);
        self.queued += weight(cost);
        self.count += 1;
        self.lists[class].count += 1;
        let ticket = self.ticket(index);
        if deadline.is_known() {
            self.deadlines.push(Reverse((deadline, ticket)));
        }
        ticket
    }

    #[inline(always)]
    pub(super) fn allocate(&mut self, class: usize, cost: u64, joined: Moment, age: Age) -> u32 {
        let index = self.free.unwrap_or_else(|| self.add_node());
        let node = &mut self.nodes[index as usize];
        self.free = node.newer.take();
        node.cost = cost;
        node.joined = joined;
        node.class = class;
        node.age = age;
        node.offered = false;
        node.status = Status::Waiting;
        index
    }

    #[cold]
    #[inline(never)]
    fn add_node(&mut self) -> u32 {
        let index = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(Node {
            cost: 0,
            joined: Moment::ORIGIN,
            class: 0,
            age: Age::NONE,
            offered: false,
            status: Status::Waiting,
            waker: None,
            generation: 0,
            older: None,
            newer: None,
        });
        index
    }

    pub(super) fn ticket(&self, index: u32) -> Ticket {
        Ticket {
            index,
            generation: self.nodes[index as usize].generation,
        }
    }

    /// The waiter that is served next, and its cost.
    pub(crate) fn head(&self, order: Order) -> Option<(Ticket, u64)> {
        let index = self.lists.iter().rev().find_map(|list| match order {
            Order::Fifo | Order::Random { .. } => list.oldest,
            Order::Lifo => list.newest,
        })?;
        Some((self.ticket(index), self.nodes[index as usize].cost))
    }

    /// The waiter that is served next, and the moment at which it joined.
    pub(crate) fn head_joined(&self, order: Order) -> Option<(Ticket, Moment)> {
        let (ticket, _) = self.head(order)?;
        Some((ticket, self.nodes[ticket.index as usize].joined))
    }

    /// The costs of a class, from the oldest to the newest.
    fn costs(&self, class: usize) -> impl Iterator<Item = u64> {
        std::iter::successors(self.lists[class].oldest, |&i| self.nodes[i as usize].newer)
            .map(|i| self.nodes[i as usize].cost)
    }

    /// The costs of a class, from the newest to the oldest.
    fn costs_back(&self, class: usize) -> impl Iterator<Item = u64> {
        std::iter::successors(self.lists[class].newest, |&i| self.nodes[i as usize].older)
            .map(|i| self.nodes[i as usize].cost)
    }

    /// The costs of the waiters that are served before a new demand of `class`, in the order of service, if
    /// `evicted` waiters of its own class make room for it.
    pub(crate) fn costs_before(
        &self,
        class: usize,
        order: Order,
        evicted: Evicted,
    ) -> impl Iterator<Item = u64> {
        let higher = (class + 1..Priority::CLASSES).rev();
        let higher = higher.flat_map(move |class| {
            let (oldest_first, newest_first) = match order {
                Order::Fifo | Order::Random { .. } => (Some(self.costs(class)), None),
                Order::Lifo => (None, Some(self.costs_back(class))),
            };
            oldest_first
                .into_iter()
                .flatten()
                .chain(newest_first.into_iter().flatten())
        });
        let own = (order == Order::Fifo).then(|| self.costs(class));
        let (skipped, kept) = match evicted.who {
            Full::Oldest => (evicted.count, usize::MAX),
            Full::Newest if evicted.count > 0 => (0, self.costs(class).count() - evicted.count),
            _ => (0, usize::MAX),
        };
        higher.chain(own.into_iter().flatten().skip(skipped).take(kept))
    }

    /// The costs of the waiters of classes below `class`, in the order in which a fifo queue serves them.
    pub(crate) fn costs_below(&self, class: usize) -> impl Iterator<Item = u64> {
        (0..class).rev().flat_map(|lower| self.costs(lower))
    }

    /// The waiters of its own class that a new demand would evict if it needs `need` of the bound, after all waiters of
    /// lower classes; `None` if even that is not enough.
    pub(crate) fn evictable(&self, class: usize, full: Full, mut need: u128) -> Option<Evicted> {
        let mut evicted = Evicted {
            who: full,
            count: 0,
        };
        for lower in 0..class {
            let mut costs = self.costs_back(lower);
            while need > 0 {
                let Some(cost) = costs.next() else { break };
                need = need.saturating_sub(weight(cost));
            }
        }
        let mut own = |costs: &mut dyn Iterator<Item = u64>| {
            while need > 0 {
                let Some(cost) = costs.next() else { return };
                need = need.saturating_sub(weight(cost));
                evicted.count += 1;
            }
        };
        match full {
            Full::Incoming => {}
            Full::Oldest => own(&mut self.costs(class)),
            Full::Newest => own(&mut self.costs_back(class)),
        }
        (need == 0).then_some(evicted)
    }

    /// The next waiter to evict for a new demand of `class`, and its weight: the newest of the lowest class below it,
    /// then its own class as `full` says.
    pub(crate) fn next_to_evict(&self, class: usize, full: Full) -> Option<(Ticket, u128)> {
        let lower = self.lists[..class].iter().find_map(|list| list.newest);
        let own = || match full {
            Full::Incoming => None,
            Full::Oldest => self.lists[class].oldest,
            Full::Newest => self.lists[class].newest,
        };
        let index = lower.or_else(own)?;
        Some((self.ticket(index), weight(self.nodes[index as usize].cost)))
    }

    /// The first deadline. A waiter may be served up to and including this moment. It may be the deadline of a waiter that has left:
    /// the alarm is then early, which does no harm.
    pub(crate) fn first_deadline(&self) -> Moment {
        let first = self.deadlines.peek();
        first.map_or(Moment::NEVER, |&Reverse((deadline, _))| deadline)
    }

    /// The deadline of a waiter, if it has one.
    pub(crate) fn deadline_of(&self, ticket: Ticket) -> Option<Moment> {
        let mut deadlines = self.deadlines.iter();
        let own = deadlines.find(|Reverse((_, of))| *of == ticket)?;
        Some(own.0.0)
    }

    /// A waiter whose deadline has passed at `now`.
    pub(crate) fn expired(&mut self, now: Moment) -> Option<Ticket> {
        while self.first_deadline() < now {
            let Reverse((_, ticket)) = self.deadlines.pop()?;
            if self.status(ticket) == Some(Status::Waiting) {
                return Some(ticket);
            }
        }
        None
    }

    /// The status of the owner of a place; `None` if the place has another owner by now.
    pub(crate) fn status(&self, ticket: Ticket) -> Option<Status> {
        let node = self.nodes.get(ticket.index as usize)?;
        (node.generation == ticket.generation).then_some(node.status)
    }

    /// The class of the owner of a place, and when it joined.
    pub(crate) fn joined(&self, ticket: Ticket) -> Option<(Priority, Moment)> {
        let node = self.nodes.get(ticket.index as usize)?;
        (node.generation == ticket.generation)
            .then(|| (Priority::of_class(node.class), node.joined))
    }

    /// Stores the waker of a waiter that has just joined.
    pub(crate) fn set_waker(&mut self, ticket: Ticket, waker: &mut Option<Waker>) {
        std::mem::swap(&mut self.nodes[ticket.index as usize].waker, waker);
    }

    /// Returns the status of a place, and stores `waker` there if its owner has to go on waiting. The caller must drop the waker that
    /// was there before outside of all locks.
    pub(crate) fn poll(
        &mut self,
        ticket: Ticket,
        waker: &Waker,
    ) -> (Option<Status>, Option<Waker>) {
        let status = self.status(ticket);
        let mut former = None;
        if status == Some(Status::Waiting) {
            let node = &mut self.nodes[ticket.index as usize];
            if !node
                .waker
                .as_ref()
                .is_some_and(|known| known.will_wake(waker))
            {
                former = node.waker.replace(waker.clone());
            }
        }
        (status, former)
    }

    /// Takes a waiter out of the queue. The place stays until its owner has read the answer.
    pub(crate) fn settle(&mut self, ticket: Ticket, status: Status) -> Option<Waker> {
        let node = &mut self.nodes[ticket.index as usize];
        debug_assert_eq!(node.status, Status::Waiting, "settled once");
        node.status = status;
        self.several -= usize::from(node.age != Age::NONE);
        let (older, newer) = (node.older.take(), node.newer.take());
        let (class, cost, waker) = (node.class, node.cost, node.waker.take());
        match older {
            Some(older) => self.nodes[older as usize].newer = newer,
            None => self.lists[class].oldest = newer,
        }
        match newer {
            Some(newer) => self.nodes[newer as usize].older = older,
            None => self.lists[class].newest = older,
        }
        self.queued -= weight(cost);
        self.count -= 1;
        self.lists[class].count -= 1;
        // Entries of waiters that have left accumulate only as far as there are waiters.
        if self.deadlines.len() > 64 + 2 * self.count {
            self.drop_stale_deadlines();
        }
        waker
    }

    fn drop_stale_deadlines(&mut self) {
        let nodes = &self.nodes;
        self.deadlines.retain(|Reverse((_, ticket))| {
            let node = &nodes[ticket.index as usize];
            node.generation == ticket.generation && node.status == Status::Waiting
        });
    }

    /// Frees a place whose owner has read its answer.
    pub(crate) fn free(&mut self, ticket: Ticket) {
        let node = &mut self.nodes[ticket.index as usize];
        debug_assert_eq!(node.generation, ticket.generation, "freed once");
        node.generation = node.generation.wrapping_add(1);
        node.newer = self.free.replace(ticket.index);
    }
}

/// The weight of a waiter, which counts against the bound: its cost, and at least 1.
#[inline]
pub(super) fn weight(cost: u64) -> u128 {
    cost.max(1).into()
}
