//! The events of a gate, for its subscribers.
//!
//! A gate with subscribers keeps its state behind the lock. All decisions then happen there, in one order, and the fast
//! path does not need to know that there are subscribers.

use std::sync::Arc;

use super::Gate;
use super::locked::{Inside, Turn};
use super::word::Core;
use crate::events::{Event, EventKind, Events, Feed};
use crate::queue::{Status, Ticket};
use crate::{Grant, Moment, Outcome, Reason, Rule};

impl<R: Rule> Gate<R> {
    /// Subscribes to the events of the gate from now on. At most `capacity` events are stored until they are read; more
    /// are lost and counted. See [`Events`].
    pub fn subscribe(&self, capacity: usize) -> Events {
        let feed = Feed::new(capacity);
        let events = Events::new(&feed);
        self.core.enter(self.core.clock.precise_now(), |turn| {
            // Only the newcomer does not know these.
            let event = |kind| turn.inside.event(kind, turn.rule, turn.state, turn.now);
            feed.emit(event(EventKind::LimitChanged));
            if turn.inside.queue.is_some() {
                feed.emit(event(EventKind::QueueBoundChanged));
            }
            turn.inside.listeners.push(feed);
        });
        events
    }
}

/// The numbers whose changes are events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    limit: u32,
    queue: Option<u32>,
}

impl<R: Rule> Core<R> {
    /// The bounds before an operation, if there are subscribers.
    #[inline]
    pub(super) fn bounds_before(&self, inside: &Inside<R>, rule: &R) -> Option<Bounds> {
        (!inside.listeners.is_empty()).then(|| Bounds {
            limit: rule.limit(),
            queue: inside.queue.map(|queue| queue.bound),
        })
    }
}

impl<R: Rule> Inside<R> {
    /// Emits the changes of the bounds.
    #[cold]
    pub(super) fn emit_changes(&mut self, before: Bounds, rule: &R, state: &R::State, now: Moment) {
        if before.limit != rule.limit() {
            self.emit(EventKind::LimitChanged, rule, state, now);
        }
        if before.queue != self.queue.map(|queue| queue.bound) {
            self.emit(EventKind::QueueBoundChanged, rule, state, now);
        }
    }

    fn event(&self, kind: EventKind, rule: &R, state: &R::State, now: Moment) -> Event {
        Event {
            kind,
            at: now,
            limit: rule.limit(),
            in_use: rule.in_use(state, now),
            queue_bound: self.queue.map_or(0, |queue| queue.bound),
            queued: self.waiters.queued(),
        }
    }

    #[cold]
    fn emit(&mut self, kind: EventKind, rule: &R, state: &R::State, now: Moment) {
        let event = self.event(kind, rule, state, now);
        self.listeners.retain(|feed: &Arc<Feed>| feed.emit(event));
    }
}

impl<R: Rule> Turn<'_, R> {
    #[inline]
    pub(super) fn emit(&mut self, kind: EventKind) {
        if !self.inside.listeners.is_empty() {
            self.inside.emit(kind, self.rule, self.state, self.now);
        }
    }

    /// Emits that a permit was returned.
    #[inline]
    pub(super) fn emit_processed(&mut self, grant: Grant, outcome: Outcome) {
        self.emit(EventKind::Processed {
            priority: grant.priority,
            took: grant.age(self.now),
            outcome,
        });
    }

    /// Emits that a permit that was granted to a waiter was returned unread.
    pub(super) fn emit_unread(&mut self, ticket: Ticket, taken: Moment) {
        if let Some((priority, _)) = self.inside.waiters.joined(ticket) {
            let grant = Grant {
                cost: 0,
                taken,
                priority,
                timed: true,
            };
            self.emit_processed(grant, Outcome::Ignore);
        }
    }

    /// Emits that a waiter has left the queue, and why.
    #[inline]
    pub(super) fn emit_left(&mut self, ticket: Ticket, left: Left) {
        if !self.inside.listeners.is_empty() {
            self.emit_left_to_listeners(ticket, left);
        }
    }

    #[cold]
    fn emit_left_to_listeners(&mut self, ticket: Ticket, left: Left) {
        let Some((priority, joined)) = self.inside.waiters.joined(ticket) else {
            return;
        };
        let waited = self.now.since(joined);
        self.emit(EventKind::Dequeued { priority, waited });
        match left {
            Left::Served => self.emit(EventKind::Processing { priority }),
            Left::Refused(reason) => self.emit(EventKind::Rejected { priority, reason }),
            Left::ByItself => {}
        }
    }
}

impl From<Status> for Left {
    fn from(status: Status) -> Self {
        match status {
            Status::Granted(_) => Self::Served,
            Status::Refused(reason) => Self::Refused(reason),
            Status::Waiting => Self::ByItself,
        }
    }
}

/// How a waiter left the queue.
#[derive(Clone, Copy)]
pub(super) enum Left {
    Served,
    Refused(Reason),
    ByItself,
}
