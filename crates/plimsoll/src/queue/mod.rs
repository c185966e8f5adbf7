//! Who waits, in which order, and who has to go when there are too many.

mod several;
mod waiters;

use std::time::Duration;

pub(crate) use several::Since;
pub(crate) use waiters::{Age, Evicted, Status, Ticket, Waiters};

/// How a limiter lets callers wait.
///
/// `bound` is how much may wait, in permits. Two orders have names and sensible companions:
///
/// - [`fifo`](Self::fifo): first come, first served, and a newcomer is refused when the queue is full.
///   Nobody passes the head, not even one whose smaller cost would fit what is free.
/// - [`lifo`](Self::lifo): last come, first served, and the oldest is evicted when the queue is full.
///   A newcomer is granted at once when it fits, whoever waits. Under overload the newest requests
///   are the ones whose callers still care.
///
/// ```
/// use plimsoll::{Counts, Full, Queue};
/// use std::time::Duration;
///
/// let queue = Queue::fifo(100).timeout(Duration::from_millis(250));
/// let picky = Queue::lifo(100).full(Full::Incoming).counts(Counts::Waiting);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct Queue {
    pub(crate) bound: u32,
    pub(crate) order: Order,
    pub(crate) full: Full,
    pub(crate) counts: Counts,
    pub(crate) timeout: Option<Duration>,
}

/// Who is served first among waiters of one class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Order {
    Fifo,
    Lifo,
}

/// Who has to go when the queue is full, among waiters of one class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Full {
    /// The newcomer.
    Incoming,
    /// Those who have waited longest.
    Oldest,
    /// Those who came last before the newcomer.
    Newest,
}

/// What is compared with the bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Counts {
    /// A demand may wait while what is in use, what waits and its own cost together exceed the limit
    /// by no more than the bound.
    Excess,
    /// A demand may wait while what waits and its own cost are no more than the bound.
    Waiting,
}

impl Queue {
    /// First come, first served; a newcomer is refused when the queue is full.
    pub const fn fifo(bound: u32) -> Self {
        Self {
            bound,
            order: Order::Fifo,
            full: Full::Incoming,
            counts: Counts::Excess,
            timeout: None,
        }
    }

    /// Last come, first served; the oldest is evicted when the queue is full.
    pub const fn lifo(bound: u32) -> Self {
        Self {
            order: Order::Lifo,
            full: Full::Oldest,
            ..Self::fifo(bound)
        }
    }

    /// Chooses who has to go when the queue is full.
    pub const fn full(mut self, full: Full) -> Self {
        self.full = full;
        self
    }

    /// Chooses what is compared with the bound.
    pub const fn counts(mut self, counts: Counts) -> Self {
        self.counts = counts;
        self
    }

    /// Lets nobody wait longer than this.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}
