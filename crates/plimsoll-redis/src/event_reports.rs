//! Emits the events of decisions to the subscribers of a limiter.

use std::sync::Arc;

use plimsoll::{
    Clock, Denied, Event, EventKind, KeyedEvent, Listeners, Moment, Outcome, Priority, Snapshot,
    Standing,
};

/// The subscribers of a limiter.
pub(crate) type Subscribers = Arc<Listeners<KeyedEvent<Vec<u8>>>>;

/// Emits the events of one key.
pub(crate) struct Reporter {
    pub(crate) subscribers: Subscribers,
    pub(crate) clock: Clock,
    pub(crate) key: Vec<u8>,
}

impl Reporter {
    fn emit(&self, kind: EventKind, (limit, left): (u64, u64)) {
        let event = Event::new(kind, self.clock.now(), &Snapshot::of(limit, left));
        self.subscribers
            .emit(KeyedEvent::new(self.key.clone(), event));
    }

    /// Emits the event of a grant. With `leased`, dropping the result emits that of its return.
    pub(crate) fn granted(self, standing: Standing, leased: bool) -> Option<ReturnEvent> {
        let priority = Priority::Normal;
        let left = standing.remaining.unwrap_or(0);
        self.emit(EventKind::Processing { priority }, (standing.limit, left));
        leased.then(|| ReturnEvent {
            granted: self.clock.now(),
            limit: standing.limit,
            left,
            forgotten: false,
            reporter: self,
        })
    }

    pub(crate) fn refused(&self, denied: &Denied) {
        let (priority, reason) = (Priority::Normal, denied.reason());
        let kind = EventKind::Rejected { priority, reason };
        self.emit(kind, (denied.limit(), denied.remaining()));
    }
}

/// A grant that is still held. Dropping it emits the event of its return.
pub(crate) struct ReturnEvent {
    reporter: Reporter,
    granted: Moment,
    limit: u64,
    /// The units that remained after the grant. Only the store knows what remains at the time of the return.
    left: u64,
    forgotten: bool,
}

impl ReturnEvent {
    /// Drops the value without emitting the event.
    pub(crate) fn forget(mut self) {
        self.forgotten = true;
    }
}

impl Drop for ReturnEvent {
    fn drop(&mut self) {
        if self.forgotten {
            return;
        }
        let kind = EventKind::Processed {
            priority: Priority::Normal,
            took: self.reporter.clock.now().since(self.granted),
            outcome: Outcome::Ignore,
        };
        self.reporter.emit(kind, (self.limit, self.left));
    }
}

impl std::fmt::Debug for ReturnEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Hides the key, which may be a secret.
        f.debug_struct("ReturnEvent").finish_non_exhaustive()
    }
}
