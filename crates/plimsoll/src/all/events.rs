//! The events of several limiters as one.

use std::io;

use super::{All, Members};
use crate::events::{Event, EventKind, Events, Listener};
use crate::{Demand, Denied, Grant, Limiter, Moment, Outcome};

impl All {
    /// Subscribes to the events of demands for all members from now on. At most `capacity` events are stored until they
    /// are read; more are lost and counted. See [`Events`].
    ///
    /// A demand is enqueued when the first member refuses it for now, and a permit is processed when it is returned to
    /// all members. The numbers are those of the [snapshot](Limiter::snapshot). Events inside one member, changes of
    /// its counts and limits included, are reported by that member.
    ///
    /// ```
    /// use plimsoll::{All, Concurrency, Gate, Limiter, TokenBucket};
    /// use std::sync::Arc;
    ///
    /// let rate = Arc::new(Gate::new(TokenBucket::per_second(100)));
    /// let slots = Arc::new(Gate::new(Concurrency::new(1)));
    /// let both = All::new([rate as Arc<dyn Limiter>, slots]);
    /// let mut events = both.subscribe(100);
    /// let permit = both.try_acquire(1);
    /// assert!(both.try_acquire(1).is_err());
    /// drop(permit);
    /// let kinds: Vec<_> = events.map(|event| event.kind.as_str()).collect();
    /// assert_eq!(kinds, ["processing", "rejected", "processed"]);
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events {
        self.members.listeners.subscribe(capacity)
    }

    /// Calls a function with each event from now on, on a thread of its own. See [`Listener`].
    ///
    /// A slow or panicking callback does not affect the limiter.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start another thread.
    pub fn subscribe_with(
        &self,
        callback: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(Listener::CAPACITY).listen(callback)
    }
}

impl Members {
    #[inline]
    fn tell(&self, kind: impl FnOnce(Moment) -> EventKind) {
        if self.listeners.has_subscribers() {
            self.tell_listeners(kind);
        }
    }

    #[cold]
    fn tell_listeners(&self, kind: impl FnOnce(Moment) -> EventKind) {
        let now = self.clock().now();
        let seen = All::of(self.shared()).snapshot();
        self.listeners.emit(Event::new(kind(now), now, &seen));
    }

    pub(super) fn tell_granted(&self, demand: Demand) {
        let priority = demand.priority;
        self.tell(|_| EventKind::Processing { priority });
    }

    pub(super) fn tell_processed(&self, grant: Grant, outcome: Outcome) {
        let priority = grant.priority;
        self.tell(|now| EventKind::Processed {
            priority,
            took: grant.age(now),
            outcome,
        });
    }

    /// Counts a refusal.
    pub(super) fn count_denied(&self, demand: Demand, denied: &Denied) {
        self.totals.denied();
        let (priority, reason) = (demand.priority, denied.reason());
        self.tell(|_| EventKind::Rejected { priority, reason });
    }
}

/// A demand that waits. Dropping it means that the demand has left the queue.
pub(super) struct Queued<'a> {
    members: &'a Members,
    demand: Demand,
    /// When it joined; `None` while there are no subscribers.
    joined: Option<Moment>,
}

impl<'a> Queued<'a> {
    pub(super) fn new(members: &'a Members, demand: Demand) -> Self {
        let priority = demand.priority;
        let heard = members.listeners.has_subscribers();
        members.tell(|_| EventKind::Enqueued { priority });
        Self {
            members,
            demand,
            joined: heard.then(|| members.clock().now()),
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if let Some(joined) = self.joined {
            let priority = self.demand.priority;
            let waited = |now: Moment| now.since(joined);
            self.members.tell(|now| EventKind::Dequeued {
                priority,
                waited: waited(now),
            });
        }
    }
}
