//! Subscriptions to the events of limits.

use std::io;

use plimsoll::{Events, Listener};

use crate::events::LimitsEvent;
use crate::limits::Limits;

impl Limits {
    /// Subscribes to decisions and reloads from now on. At most `capacity` events are stored until they are read; further events are
    /// dropped and counted. Dropping the returned [`Events`] ends the subscription.
    ///
    /// Each decision is one event, at the time of its result, also in a [layer](Self::layer) and after a wait. A
    /// decision that is dropped while it waits, and a [`peek`](Self::peek), cause no event. Limits have the names of
    /// the file, and keys are [masked](crate::EventKey). Without subscribers this costs a decision one load.
    ///
    /// ```
    /// use plimsoll_engine::{Ask, Limits, LimitsEventKind};
    ///
    /// let limits = Limits::from_yaml("limits: { user: { rate: 1/h, key: header:x-user } }")?;
    /// let mut events = limits.subscribe(1000);
    /// for _ in 0..2 {
    ///     let _ = limits.try_decide(&[Ask::new("user").key("anna@example.com")]);
    /// }
    /// assert_eq!(events.next().unwrap().kind.as_str(), "admitted");
    /// let LimitsEventKind::Refused { limit, reason, .. } = events.next().unwrap().kind else { unreachable!() };
    /// assert_eq!((limit.as_deref(), reason.as_str()), (Some("user"), "exhausted"));
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events<LimitsEvent> {
        self.subscribers().subscribe(capacity)
    }

    /// Calls `callback` with each event from now on, on a thread of its own: a slow or panicking callback delays no decision. See
    /// [`Listener`].
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot start a thread.
    pub fn subscribe_with(
        &self,
        callback: impl FnMut(LimitsEvent) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(1024).listen(callback)
    }
}
