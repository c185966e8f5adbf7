//! What happens in a limiter, for those who want to know.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use crate::{Moment, Outcome, Priority, Reason};

/// Something that happened in a limiter, and what the limiter looked like right after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub kind: EventKind,
    /// When.
    pub at: Moment,
    /// The limit.
    pub limit: u32,
    /// How much is in use.
    pub in_use: u64,
    /// How much may wait; 0 without a queue.
    pub queue_bound: u32,
    /// How much waits.
    pub queued: u64,
}

/// What can happen in a limiter.
///
/// How much is in use changes with [`Processing`](Self::Processing) and [`Processed`](Self::Processed), how much
/// waits with [`Enqueued`](Self::Enqueued) and [`Dequeued`](Self::Dequeued).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum EventKind {
    /// The limit is another one. Told once to every newcomer.
    LimitChanged,
    /// How much may wait is something else. Told once to every newcomer if there is a queue.
    QueueBoundChanged,
    /// Somebody waits.
    Enqueued {
        /// Of which class.
        priority: Priority,
    },
    /// Somebody waits no longer, whatever the reason.
    Dequeued {
        /// Of which class.
        priority: Priority,
        /// How long it has waited.
        waited: Duration,
    },
    /// Somebody got a permit.
    Processing {
        /// Of which class.
        priority: Priority,
    },
    /// A permit came back.
    Processed {
        /// Of which class.
        priority: Priority,
        /// How long it was out.
        took: Duration,
        /// How the work went.
        outcome: Outcome,
    },
    /// Somebody was refused, at once or after waiting.
    Rejected {
        /// Of which class.
        priority: Priority,
        /// Why.
        reason: Reason,
    },
}

impl EventKind {
    /// The class of the work it happened to, if it happened to any.
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

    /// The word for it in logs and metrics.
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

/// What happens in a limiter from the moment of [subscribing](crate::Gate::subscribe) on, in order.
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
/// let told: Vec<&str> = events.by_ref().map(|event| event.kind.as_str()).collect();
/// assert_eq!(told, ["limit_changed", "processing", "rejected", "processed"]);
/// assert_eq!(events.missed(), 0);
/// ```
///
/// It is an iterator over what has happened so far: it ends where there is nothing more yet, and goes on when there
/// is. Nobody is woken; look as often as you like to know. What does not fit between two looks is lost, and
/// counted: a subscriber that is slow, or gone, never holds anybody up. Dropping it ends the subscription.
///
/// While anybody listens, decisions are made behind the lock of the gate, one after the other. While nobody
/// does, it costs nothing.
pub struct Events(Arc<Feed>);

/// What a gate writes to and a subscriber reads from.
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

    /// Tells the subscriber; says whether there still is one.
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

    /// How many events were lost because nobody had looked for too long.
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
