//! The queue of a limiter: its order, its bound, and which demand is evicted when it is full.

mod chance;
mod evicted;
mod plain;
mod several;
mod ticket;
mod waiters;

use std::time::Duration;

pub(crate) use evicted::Evicted;
pub(crate) use several::Since;
pub(crate) use ticket::{Age, Status, Ticket};
pub(crate) use waiters::Waiters;

/// The settings of the queue in which demands wait.
///
/// `bound` is the maximum that may wait, in permits (see [`Counts`]). There are three orders, each with suitable
/// defaults:
///
/// - [`fifo`](Self::fifo): first come, first served. When the queue is full a new demand is refused. No demand passes
///   the head of the queue, even if its smaller cost would fit.
/// - [`lifo`](Self::lifo): last come, first served. When the queue is full the oldest waiter is evicted. A new demand
///   that fits is granted at once, although others wait. Under overload, the callers of the newest requests are those
///   most likely to be still waiting for an answer.
/// - [`random`](Self::random): each waiter is as likely as any other to be the next. When the queue is full a new
///   demand is refused. No demand passes the queue.
///
/// Waiters of a higher [`Priority`](crate::Priority) are served first in every order.
///
/// # How late waiters are served
///
/// A waiter gets a returned permit at once. On a [manual](crate::ManualClock) clock or tokio's, a waiter for a refill
/// is served at the moment from which it fits. On the machine's clock a thread has to be woken for that, which costs
/// more than serving many waiters, so the waiters of a [`TokenBucket`](crate::TokenBucket) are served in batches: when
/// a third of the waiting costs fits, at the latest when the first waiter is late by a third of its wait, and before
/// the bucket is full. So no refill is lost, no more is granted than the bucket allows, and a waiter with a time-out is
/// served or refused as if it were served alone. If at most five permits wait, they are served one by one. The time
/// that the machine takes to wake a thread is added in any case.
///
/// ```
/// use plimsoll::{Counts, Full, Queue};
/// use std::time::Duration;
///
/// let queue = Queue::fifo(100).timeout(Duration::from_millis(250));
/// let picky = Queue::lifo(100).full(Full::Incoming).counts(Counts::Waiting);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct Queue {
    pub(crate) bound: u64,
    pub(crate) order: Order,
    pub(crate) full: Full,
    pub(crate) counts: Counts,
    pub(crate) timeout: Option<Duration>,
}

/// The waiter of a class that is served first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub(crate) enum Order {
    Fifo,
    Lifo,
    /// A waiter joins at a random place, by numbers that follow from the seed, and is served from the front.
    Random {
        seed: Option<u64>,
    },
}

/// The demand that is refused when the queue is full, among those of one class. In a [random](Queue::random) queue
/// `Oldest` and `Newest` both choose waiters at random.
///
/// ```
/// use plimsoll::{Full, Queue};
///
/// // Refuses new demands instead of evicting the oldest, which is the default of a lifo queue.
/// let queue = Queue::lifo(100).full(Full::Incoming);
/// # let _ = queue;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Full {
    /// The new demand.
    Incoming,
    /// The waiters that have waited longest, until there is room for the new demand.
    Oldest,
    /// The waiters that joined last before the new demand, until there is room for it.
    Newest,
}

/// The amount that is compared with the bound of the queue.
///
/// ```
/// use plimsoll::{Concurrency, Counts, Gate, Queue};
///
/// // At most 5 permits wait, however many of the 10 are free.
/// let queue = Queue::fifo(5).counts(Counts::Waiting);
/// let gate = Gate::builder(Concurrency::new(10)).queue(queue).build();
/// # assert!(gate.try_acquire(10).is_ok());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Counts {
    /// A demand may wait while the permits in use, the waiting costs and its own cost together exceed the limit by no
    /// more than the bound.
    Excess,
    /// A demand may wait while the waiting costs and its own cost are no more than the bound.
    Waiting,
}

impl Queue {
    /// Serves waiters first in, first out. When the queue is full, a new demand is refused.
    pub const fn fifo(bound: u64) -> Self {
        Self {
            bound,
            order: Order::Fifo,
            full: Full::Incoming,
            counts: Counts::Excess,
            timeout: None,
        }
    }

    /// Serves waiters last in, first out. When the queue is full, the oldest waiter is evicted.
    pub const fn lifo(bound: u64) -> Self {
        Self {
            order: Order::Lifo,
            full: Full::Oldest,
            ..Self::fifo(bound)
        }
    }

    /// Serves waiters in random order. When the queue is full, a new demand is refused.
    ///
    /// Every waiter of a class has the same chance, so no caller gains by asking early. The random numbers come from
    /// the system, unless a [seed](Self::seed) is set.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Queue};
    ///
    /// let pool = Gate::builder(Concurrency::new(10)).queue(Queue::random(50)).build();
    /// # assert!(pool.try_acquire(1).is_ok());
    /// ```
    ///
    /// The moment at which a waiter will be served is not known in advance: a time-out applies once it has passed, and
    /// a refusal has no retry time.
    pub const fn random(bound: u64) -> Self {
        Self {
            order: Order::Random { seed: None },
            ..Self::fifo(bound)
        }
    }

    /// Sets the seed of a [random](Self::random) queue: the same demands are then served in the same order each time,
    /// for tests and simulations. It has no effect on other queues.
    pub const fn seed(mut self, seed: u64) -> Self {
        if let Order::Random { .. } = self.order {
            self.order = Order::Random { seed: Some(seed) };
        }
        self
    }

    /// Sets the demand that is refused when the queue is full. Default: [`Full::Incoming`] for fifo and random queues,
    /// [`Full::Oldest`] for lifo queues.
    pub const fn full(mut self, full: Full) -> Self {
        self.full = full;
        self
    }

    /// Sets the amount that is compared with the bound. Default: [`Counts::Excess`].
    pub const fn counts(mut self, counts: Counts) -> Self {
        self.counts = counts;
        self
    }

    /// Sets the longest time that a demand waits, or `None` for no time-out, which is the default. A shorter time-out of the
    /// [`Demand`](crate::Demand) takes precedence.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}
