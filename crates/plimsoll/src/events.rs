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
    pub limit: u64,
    /// How many permits are in use.
    pub in_use: u64,
    /// The bound of the queue, 0 without one.
    pub queue_bound: u64,
    /// The sum of the costs that wait.
    pub queued: u64,
}

impl Event {
    /// An event with the numbers of a snapshot, for [limiters of your own](Listeners).
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

/// An event of one key of a limiter: of [`Keyed`](crate::Keyed), or of a policy.
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
    /// An event of this key.
    #[must_use]
    pub const fn new(key: K, event: Event) -> Self {
        Self { key, event }
    }
}

/// The kinds of events.
///
/// [`Processing`](Self::Processing) and [`Processed`](Self::Processed) change what is in use;
/// [`Enqueued`](Self::Enqueued) and [`Dequeued`](Self::Dequeued) change what waits. Each of them is followed by
/// [`InUseChanged`](Self::InUseChanged) or [`QueuedChanged`](Self::QueuedChanged) if the number differs from that of the
/// event before, for subscribers that watch the numbers only. What the passing of time changes is in the next event.
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

    /// The name of the kind in logs and metrics.
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
