//! The events of a limiter.

mod callback;
mod feed;
mod listeners;

use std::time::Duration;

use crate::moment::Moment;
use crate::snapshot::Snapshot;
use crate::{Outcome, Priority, Reason};

pub use callback::Listener;
pub use feed::{Events, NextEvent};
pub use listeners::Listeners;
pub(crate) use {feed::Writer, listeners::Sink};

/// One event in a limiter, and the numbers of the limiter right after it. [`Events`] yields them.
///
/// ```
/// use plimsoll::{Concurrency, Event, EventKind, Gate};
///
/// let gate = Gate::new(Concurrency::new(4));
/// let mut events = gate.subscribe(100);
/// let _permit = gate.try_acquire(3)?;
/// let granted: Event = events.find(|it| matches!(it.kind, EventKind::Processing { .. })).unwrap();
/// assert_eq!((granted.limit, granted.in_use, granted.queued), (4, 3, 0));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Event {
    /// The kind of the event, with its data.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub kind: EventKind,
    /// The moment of the event.
    pub at: Moment,
    /// The limit.
    pub limit: u64,
    /// The number of permits in use.
    pub in_use: u64,
    /// The bound of the queue, 0 without one.
    pub queue_bound: u64,
    /// The sum of the costs that wait in the queue.
    pub queued: u64,
}

impl Event {
    /// Creates an event with the numbers of a snapshot, for [custom limiters](Listeners).
    #[must_use]
    pub fn new(kind: EventKind, at: Moment, seen: &Snapshot) -> Self {
        Self {
            kind,
            at,
            limit: seen.limit,
            in_use: seen.in_use,
            queue_bound: seen.queue_bound,
            queued: seen.queued,
        }
    }
}

/// An event of one key of a limiter: of a [`Keyed`](crate::Keyed) limit, or of a policy.
///
/// ```
/// use plimsoll::{Keyed, KeyedEvent, TokenBucket};
///
/// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(1));
/// let mut events = per_tenant.subscribe(100);
/// per_tenant.try_acquire("red", 1)?;
/// let KeyedEvent { key, event, .. } = events.next().unwrap();
/// assert_eq!((key.as_str(), event.kind.as_str()), ("red", "processing"));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct KeyedEvent<K> {
    /// The key.
    pub key: K,
    /// The event, with the numbers of the key.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub event: Event,
}

impl<K> KeyedEvent<K> {
    /// Creates an event of this key.
    #[must_use]
    pub const fn new(key: K, event: Event) -> Self {
        Self { key, event }
    }
}

/// The kinds of events.
///
/// [`Processing`](Self::Processing) and [`Processed`](Self::Processed) change the number in use;
/// [`Enqueued`](Self::Enqueued) and [`Dequeued`](Self::Dequeued) change the sum of the waiting costs. Each of them is
/// followed by [`InUseChanged`](Self::InUseChanged) or [`QueuedChanged`](Self::QueuedChanged) if the number differs
/// from that of the previous event, for subscribers that watch only the numbers. A change that only the passing of time
/// caused is reported with the next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum EventKind {
    /// The limit changed. Every subscriber gets this event first.
    LimitChanged,
    /// The bound of the queue changed. Every subscriber gets this event once at the start if there is a queue.
    QueueBoundChanged,
    /// The number of permits in use changed: by a grant, a return, or a change of the limiter.
    InUseChanged,
    /// The sum of the costs that wait changed.
    QueuedChanged,
    /// A demand joined the queue.
    Enqueued {
        /// The class of the demand.
        priority: Priority,
    },
    /// A demand left the queue: it was granted, refused or cancelled.
    Dequeued {
        /// The class of the demand.
        priority: Priority,
        /// The time that the demand waited.
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
        /// The result of the work.
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
    /// Returns the class of the demand, if the event is about one.
    #[must_use]
    pub const fn priority(self) -> Option<Priority> {
        match self {
            Self::LimitChanged
            | Self::QueueBoundChanged
            | Self::InUseChanged
            | Self::QueuedChanged => None,
            Self::Enqueued { priority }
            | Self::Dequeued { priority, .. }
            | Self::Processing { priority }
            | Self::Processed { priority, .. }
            | Self::Rejected { priority, .. } => Some(priority),
        }
    }

    /// Returns the name of the kind in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LimitChanged => "limit_changed",
            Self::QueueBoundChanged => "queue_bound_changed",
            Self::InUseChanged => "in_use_changed",
            Self::QueuedChanged => "queued_changed",
            Self::Enqueued { .. } => "enqueued",
            Self::Dequeued { .. } => "dequeued",
            Self::Processing { .. } => "processing",
            Self::Processed { .. } => "processed",
            Self::Rejected { .. } => "rejected",
        }
    }
}
