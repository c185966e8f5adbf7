//! Subscriptions to the events of a limiter.

use std::io;
use std::sync::Arc;

use plimsoll::{Events, KeyedEvent, Listener};

use crate::RedisLimiter;
use crate::event_reports::Reporter;

impl RedisLimiter {
    /// Subscribes to the decisions of this limiter and its clones, each with its key. At most `capacity` events are buffered; further
    /// events are dropped and counted. See [`Events`].
    ///
    /// A grant is [`Processing`](plimsoll::EventKind::Processing), a refusal [`Rejected`](plimsoll::EventKind::Rejected), and the release
    /// of a lease [`Processed`](plimsoll::EventKind::Processed), with the last known numbers of the store. Events report the
    /// decisions of this process, including those about several limits and those that a fleet makes from borrowed permits, but not
    /// the answers of an [`Outage`](crate::Outage) setting. If a decision about several limits is refused, only the limits that
    /// refuse emit an event. Without subscribers, a decision costs one additional load.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::Store;
    ///
    /// let api = Store::open("redis://127.0.0.1")?.limiter("api", TokenBucket::per_second(10))?;
    /// let listener = api.subscribe(1000).listen(|heard| {
    ///     println!("{} for a key of {} bytes", heard.event.kind.as_str(), heard.key.len());
    /// })?;
    /// # listener.finish();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events<KeyedEvent<Vec<u8>>> {
        self.subscribers().subscribe(capacity)
    }

    /// Calls a function with each event on a thread of its own, so a slow or panicking function does not affect decisions.
    /// See [`Listener`].
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be spawned.
    pub fn subscribe_with(
        &self,
        callback: impl FnMut(KeyedEvent<Vec<u8>>) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(1024).listen(callback)
    }

    /// The reporter for decisions about `key`; `None` without subscribers.
    pub(crate) fn reporter(&self, key: &[u8]) -> Option<Reporter> {
        self.subscribers().has_subscribers().then(|| Reporter {
            subscribers: Arc::clone(self.subscribers()),
            clock: self.store().clock(),
            key: key.to_vec(),
        })
    }
}
