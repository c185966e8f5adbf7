//! The events of a limiter.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use crate::{Moment, Outcome, Priority, Reason};

/// One event in a limiter, and the numbers of the limiter right after it. [`Events`] yields them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub kind: EventKind,
    /// When it happened.
    pub at: Moment,
    /// The limit.
    pub limit: u32,
    /// How many permits are in use.
    pub in_use: u64,
    /// The bound of the queue, 0 without one.
    pub queue_bound: u32,
    /// The sum of the costs that wait.
    pub queued: u64,
}

/// The kinds of events.
///
/// [`Processing`](Self::Processing) and [`Processed`](Self::Processed) change what is in use;
/// [`Enqueued`](Self::Enqueued) and [`Dequeued`](Self::Dequeued) change what waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum EventKind {
    /// The limit changed. Every subscriber gets this event first.
    LimitChanged,
    /// The bound of the queue changed. Every subscriber gets this event once at the start if there is a queue.
    QueueBoundChanged,
    /// A demand joined the queue.
    Enqueued {
        /// The class of the demand.
        priority: Priority,
    },
    /// A demand left the queue: granted, refused or cancelled.
    Dequeued {
        /// The class of the demand.
        priority: Priority,
        /// How long the demand waited.
        waited: Duration,
    },
    /// A permit was granted.
    Processing {
        /// The class of the demand.
        priority: Priority,
    },
    /// A permit was returned.
    Processed {
        /// The class of the demand.
        priority: Priority,
        /// The time from the grant to the return.
        took: Duration,
        /// How the work went.
        outcome: Outcome,
    },
    /// A demand was refused, at once or after waiting.
    Rejected {
        /// The class of the demand.
        priority: Priority,
        /// The reason.
        reason: Reason,
    },
}

impl EventKind {
    /// The class of the demand, if the event is about one.
    #[must_use]
    pub const fn priority(self) -> Option<Priority> {
        match self {
            Self::LimitChanged | Self::QueueBoundChanged => None,
            Self::Enqueued { priority }
            | Self::Dequeued { priority, .. }
            | Self::Processing { priority }
            | Self::Processed { priority, .. }
            | Self::Rejected { priority, .. } => Some(priority),
        }
    }

    /// The name of the kind in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LimitChanged => "limit_changed",
            Self::QueueBoundChanged => "queue_bound_changed",
            Self::Enqueued { .. } => "enqueued",
            Self::Dequeued { .. } => "dequeued",
            Self::Processing { .. } => "processing",
            Self::Processed { .. } => "processed",
            Self::Rejected { .. } => "rejected",
        }
    }
}

/// The events of a limiter since the [subscription](crate::Gate::subscribe), in order.
///
/// ```
/// use plimsoll::{Concurrency, Gate, EventKind};
///
/// let gate = Gate::new(Concurrency::new(1));
/// let mut events = gate.subscribe(1000);
/// let permit = gate.try_acquire(1);
/// assert!(gate.try_acquire(1).is_err());
/// drop(permit);
///
/// let kinds: Vec<&str> = events.by_ref().map(|event| event.kind.as_str()).collect();
/// assert_eq!(kinds, ["limit_changed", "processing", "rejected", "processed"]);
/// assert_eq!(events.missed(), 0);
/// ```
///
/// It is an iterator over the events so far: `next` returns `None` when there are no more yet, and can be called again
/// later. It has to be polled; no task is woken. Events that do not fit the capacity of the subscription are lost and
/// [counted](Self::missed), so a slow subscriber never blocks the limiter. Dropping it ends the subscription.
///
/// While a gate has subscribers, all its decisions take its lock. Without subscribers events cost nothing.
pub struct Events(Arc<Feed>);

/// The buffer that a gate writes to and a subscriber reads from.
pub(crate) struct Feed {
    events: ArrayQueue<Event>,
    missed: AtomicU64,
}

impl Feed {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            events: ArrayQueue::new(capacity.max(1)),
            missed: AtomicU64::new(0),
        })
    }

    /// Stores the event; returns whether there still is a subscriber.
    pub(crate) fn emit(self: &Arc<Self>, event: Event) -> bool {
        if self.events.push(event).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        Arc::strong_count(self) > 1
    }
}

impl Events {
    pub(crate) fn new(feed: &Arc<Feed>) -> Self {
        Self(Arc::clone(feed))
    }

    /// How many events were lost because the buffer was full.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.0.events.pop()
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("waiting", &self.0.events.len())
            .field("missed", &self.missed())
            .finish()
    }
}
