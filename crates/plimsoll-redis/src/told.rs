//! What those who listen to a limiter are told of its decisions.

use std::sync::Arc;

use plimsoll::{
    Clock, Denied, Event, EventKind, KeyedEvent, Listeners, Moment, Outcome, Priority, Snapshot,
    Standing,
};

/// Those who listen to a limiter.
pub(crate) type Heard = Arc<Listeners<KeyedEvent<Vec<u8>>>>;

/// Tells of the decisions about one key.
pub(crate) struct Teller {
    pub(crate) heard: Heard,
    pub(crate) clock: Clock,
    pub(crate) key: Vec<u8>,
}

impl Teller {
    fn tell(&self, kind: EventKind, (limit, left): (u64, u64)) {
        let event = Event::new(kind, self.clock.now(), &Snapshot::of(limit, left));
        self.heard.emit(KeyedEvent::new(self.key.clone(), event));
    }

    /// Tells of a grant. With `leased` the result tells of its return when it is dropped.
    pub(crate) fn granted(self, standing: Standing, leased: bool) -> Option<Told> {
        let priority = Priority::Normal;
        let left = standing.remaining.unwrap_or(0);
        self.tell(EventKind::Processing { priority }, (standing.limit, left));
        leased.then(|| Told {
            granted: self.clock.now(),
            limit: standing.limit,
            left,
            forgotten: false,
            teller: self,
        })
    }

    pub(crate) fn refused(&self, denied: &Denied) {
        let (priority, reason) = (Priority::Normal, denied.reason());
        let kind = EventKind::Rejected { priority, reason };
        self.tell(kind, (denied.limit(), denied.remaining()));
    }
}

/// A grant that was told of and is still held.
pub(crate) struct Told {
    teller: Teller,
    granted: Moment,
    limit: u64,
    /// What was left after it was granted: what others did since is known to the store alone.
    left: u64,
    forgotten: bool,
}

impl Told {
    /// It is never returned.
    pub(crate) fn forget(mut self) {
        self.forgotten = true;
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if self.forgotten {
            return;
        }
        let kind = EventKind::Processed {
            priority: Priority::Normal,
            took: self.teller.clock.now().since(self.granted),
            outcome: Outcome::Ignore,
        };
        self.teller.tell(kind, (self.limit, self.left));
    }
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the key, which may be a secret.
        f.debug_struct("Told").finish_non_exhaustive()
    }
}
