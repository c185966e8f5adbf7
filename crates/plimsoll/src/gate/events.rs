//! The events of a gate, for its subscribers.
//!
//! A gate with subscribers keeps its state behind the lock. All decisions then happen there, in one order, and the fast
//! path does not need to know that there are subscribers.

use std::io;
use std::mem::replace;

use super::Gate;
use super::locked::{Inside, Turn};
use crate::events::{Event, EventKind, Events, Listener, Sink, Writer};
use crate::queue::{Status, Ticket};
use crate::wakeups::Wakeups;
use crate::{Grant, Moment, Outcome, Rule};

impl<R: Rule> Gate<R> {
    /// Subscribes to the events of the gate from now on. At most `capacity` events are stored until they are read; more
    /// are lost and counted. See [`Events`].
    ///
    /// The first events report the current limit and queue bound. While there is a subscription, each decision takes
    /// the lock.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    ///
    /// let gate = Gate::new(Concurrency::new(1));
    /// let events = gate.subscribe(100);
    /// drop(gate.try_acquire(1)?);
    /// let kinds: Vec<_> = events.map(|event| event.kind.as_str()).collect();
    /// assert!(kinds.contains(&"processing") && kinds.contains(&"processed"));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events {
        let (writer, events) = Writer::new(capacity);
        self.core.enter(self.core.clock.precise_now(), |turn| {
            // Only the new subscriber has not got these numbers yet. It does not wait for events yet.
            let event = |kind| turn.inside.event(kind, turn.rule, turn.state, turn.now);
            writer.emit(event(EventKind::LimitChanged), &mut drop);
            if turn.inside.queue.is_some() {
                writer.emit(event(EventKind::QueueBoundChanged), &mut drop);
            }
            turn.add_sink(Box::new(writer));
        });
        events
    }

    /// Calls a function with each event of the gate from now on, on a thread of its own. See [`Listener`].
    ///
    /// A slow or panicking callback does not affect the limiter.
    ///
    /// ```
    /// use plimsoll::{Concurrency, EventKind, Gate};
    ///
    /// let gate = Gate::new(Concurrency::new(1));
    /// let listener = gate.subscribe_with(|event| {
    ///     if let EventKind::Rejected { priority, .. } = event.kind {
    ///         eprintln!("rejected with priority {priority:?}");
    ///     }
    /// })?;
    /// # listener.finish();
    /// # Ok::<(), std::io::Error>(())
    /// ```
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

    /// Passes the events from now on to `sink`.
    pub(crate) fn add_sink(&self, sink: Box<dyn Sink>) {
        let now = self.core.clock.precise_now();
        self.core.enter(now, |turn| turn.add_sink(sink));
    }
}

/// The numbers whose changes are events, as subscribers know them.
#[derive(Default)]
pub(super) struct Reported {
    limit: u64,
    queue_bound: Option<u64>,
    in_use: u64,
    queued: u64,
}

impl<R: Rule> Inside<R> {
    /// Emits the changes of the bounds, and of the counts if no other event reported them.
    #[cold]
    pub(super) fn emit_changes(
        &mut self,
        rule: &R,
        state: &R::State,
        now: Moment,
        wakeups: &mut Wakeups,
    ) {
        let event = self.event(EventKind::LimitChanged, rule, state, now);
        if replace(&mut self.reported.limit, event.limit) != event.limit {
            self.notify(event, wakeups);
        }
        let bound = self.queue.map(|queue| queue.bound);
        if replace(&mut self.reported.queue_bound, bound) != bound {
            let kind = EventKind::QueueBoundChanged;
            self.notify(Event { kind, ..event }, wakeups);
        }
        self.notify_counts(event, wakeups);
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

    fn notify(&mut self, event: Event, wakeups: &mut Wakeups) {
        let wake = &mut |reader| wakeups.push(Some(reader));
        self.listeners.retain(|sink| sink.emit(event, wake));
    }

    /// Emits the counts that differ from those of the last event.
    fn notify_counts(&mut self, event: Event, wakeups: &mut Wakeups) {
        if replace(&mut self.reported.queued, event.queued) != event.queued {
            let kind = EventKind::QueuedChanged;
            self.notify(Event { kind, ..event }, wakeups);
        }
        if replace(&mut self.reported.in_use, event.in_use) != event.in_use {
            let kind = EventKind::InUseChanged;
            self.notify(Event { kind, ..event }, wakeups);
        }
    }
}

impl<R: Rule> Turn<'_, R> {
    #[inline]
    pub(super) fn emit(&mut self, kind: EventKind) {
        if !self.inside.listeners.is_empty() {
            self.emit_to_listeners(kind);
        }
    }

    #[cold]
    fn emit_to_listeners(&mut self, kind: EventKind) {
        let event = self.inside.event(kind, self.rule, self.state, self.now);
        self.inside.notify(event, self.wakeups);
        self.inside.notify_counts(event, self.wakeups);
    }

    fn add_sink(&mut self, sink: Box<dyn Sink>) {
        self.inside.reported = Reported {
            limit: self.rule.limit(),
            queue_bound: self.inside.queue.map(|queue| queue.bound),
            in_use: self.rule.in_use(self.state, self.now),
            queued: self.inside.waiters.queued(),
        };
        self.inside.listeners.push(sink);
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

    /// Emits that a waiter has left the queue: by itself if it was still waiting.
    #[inline]
    pub(super) fn emit_left(&mut self, ticket: Ticket, status: Status) {
        if !self.inside.listeners.is_empty() {
            self.emit_left_to_listeners(ticket, status);
        }
    }

    #[cold]
    fn emit_left_to_listeners(&mut self, ticket: Ticket, status: Status) {
        let Some((priority, joined)) = self.inside.waiters.joined(ticket) else {
            return;
        };
        let waited = self.now.since(joined);
        self.emit(EventKind::Dequeued { priority, waited });
        match status {
            Status::Granted(_) => self.emit(EventKind::Processing { priority }),
            Status::Refused(reason) => self.emit(EventKind::Rejected { priority, reason }),
            Status::Waiting => {}
        }
    }
}
