//! The events of a limiter.

use std::io;
use std::sync::Arc;

use plimsoll::{Events, KeyedEvent, Listener};

use crate::RedisLimiter;
use crate::event_reports::Reporter;

impl RedisLimiter {
    /// Subscribes to what the store decides for this limiter and its clones from now on, each with its key. At most
    /// `capacity` events are stored until they are read; more are lost and counted. See [`Events`].
    ///
    /// A grant is [`Processing`](plimsoll::EventKind::Processing), a refusal
    /// [`Rejected`](plimsoll::EventKind::Rejected), and the return of a lease [`Processed`](plimsoll::EventKind::Processed), with the
    /// last known numbers of the store. Only decisions of this process are reported, also those about several limits at once and
    /// those that a fleet makes of what it has borrowed; not what is answered while there is no store. Of a decision about several that is
    /// refused, only the limits that refuse tell. Without subscribers a decision costs one load more.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::Store;
    ///
    /// let api = Store::connect("redis://127.0.0.1")?.limiter("api", TokenBucket::per_second(10))?;
    /// let listener = api.subscribe(1000).listen(|heard| {
    ///     println!("{} for a key of {} bytes", heard.event.kind.as_str(), heard.key.len());
    /// })?;
    /// # listener.finish();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events<KeyedEvent<Vec<u8>>> {
        self.subscribers().subscribe(capacity)
    }

    /// Calls a function with each event from now on, on a thread of its own: slow or panicking, it disturbs nobody. See
    /// [`Listener`].
    ///
    /// # Errors
    ///
    /// If the system has no room for another thread.
    pub fn subscribe_with(
        &self,
        callback: impl FnMut(KeyedEvent<Vec<u8>>) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(1024).listen(callback)
    }

    /// Who tells of decisions about `key`, if anybody listens.
    pub(crate) fn reporter(&self, key: &[u8]) -> Option<Reporter> {
        self.subscribers().are_there().then(|| Reporter {
            subscribers: Arc::clone(self.subscribers()),
            clock: self.store().clock(),
            key: key.to_vec(),
        })
    }
}
