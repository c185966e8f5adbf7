//! All subscribers of a limiter.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::{Event, Events, Writer};
use crate::unwind::quietly;

/// Takes the events of a gate, behind its lock.
pub(crate) trait Sink: Send + Sync {
    /// Stores an event, and passes readers that wait for one to `wake`. Returns whether there still is a subscriber.
    fn emit(&self, event: Event, wake: &mut dyn FnMut(Waker)) -> bool;
}

impl Sink for Writer<Event> {
    fn emit(&self, event: Event, wake: &mut dyn FnMut(Waker)) -> bool {
        Self::emit(self, event, wake)
    }
}

/// The subscribers of a limiter that is not a [`Gate`](crate::Gate), for authors of limiters with events.
///
/// ```
/// use plimsoll::{Event, EventKind, Listeners, Moment, Priority, Reason, Snapshot};
///
/// #[derive(Default)]
/// struct Maintenance {
///     listeners: Listeners<Event>,
/// }
///
/// impl Maintenance {
///     fn refuse(&self) {
///         // Costs one load while there are no subscribers.
///         if self.listeners.has_subscribers() {
///             let kind = EventKind::Rejected { priority: Priority::Normal, reason: Reason::Closed };
///             self.listeners.emit(Event::new(kind, Moment::ORIGIN, &Snapshot::of(0, 0)));
///         }
///     }
/// }
///
/// let limiter = Maintenance::default();
/// limiter.refuse();
/// let mut events = limiter.listeners.subscribe(100);
/// limiter.refuse();
/// assert_eq!(events.count(), 1);
/// ```
pub struct Listeners<T> {
    /// Whether the list is not empty.
    any: AtomicBool,
    feeds: Mutex<Vec<Writer<T>>>,
}

impl<T> Listeners<T> {
    /// Creates an empty list of subscribers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            feeds: Mutex::new(Vec::new()),
        }
    }

    fn feeds(&self) -> MutexGuard<'_, Vec<Writer<T>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there are subscribers. It loads one flag.
    #[inline]
    #[must_use]
    pub fn has_subscribers(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Adds a subscriber. At most `capacity` events are stored for it; more are lost and counted.
    pub fn subscribe(&self, capacity: usize) -> Events<T> {
        let (writer, events) = Writer::new(capacity);
        let mut feeds = self.feeds();
        feeds.push(writer);
        self.any.store(true, Ordering::Relaxed);
        events
    }

    /// Removes dropped subscribers, and returns whether any are left.
    #[must_use]
    pub fn prune(&self) -> bool {
        let mut feeds = self.feeds();
        feeds.retain(Writer::is_read);
        self.any.store(!feeds.is_empty(), Ordering::Relaxed);
        !feeds.is_empty()
    }
}

impl<T: Clone> Listeners<T> {
    /// Passes an event to all subscribers and wakes those that wait. Call it with no lock held: waking runs foreign code.
    #[cold]
    pub fn emit(&self, event: T) {
        let mut readers = Vec::new();
        self.store(event, &mut |reader| readers.push(reader));
        for reader in readers {
            quietly(|| reader.wake());
        }
    }

    /// Like [`emit`](Self::emit), but leaves the waking to the caller. Returns whether there still are subscribers.
    pub(crate) fn store(&self, event: T, wake: &mut dyn FnMut(Waker)) -> bool {
        let mut feeds = self.feeds();
        feeds.retain(|feed| feed.emit(event.clone(), wake));
        self.any.store(!feeds.is_empty(), Ordering::Relaxed);
        !feeds.is_empty()
    }
}

impl<T> Default for Listeners<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Listeners<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners")
            .field("any", &self.has_subscribers())
            .finish_non_exhaustive()
    }
}
