//! The events of all keys.
//!
//! While there are subscribers, every key that is asked has a gate, and they receive its events together with the key.
//! The fast path does not report events: it is closed while there are subscribers.

use std::hash::{BuildHasher, Hash};
use std::io;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use super::Keyed;
use super::key_gate::{KeySubscribers, Lease, OpenFeed};
use super::shared::Shared;
use super::step::How;
use super::table::{Table, View};
use crate::events::{Event, EventKind, Events, KeyedEvent, Listener, Listeners, Sink};
use crate::{Clock, Demand, Denied, Gate, Rule, Snapshot};

impl<K: Hash + Eq + Clone + Send + Sync + 'static, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Subscribes to the events of all keys from now on, each with its key. At most `capacity` events are stored until
    /// they are read; more are lost and counted. See [`Events`].
    ///
    /// ```
    /// use plimsoll::{EventKind, Keyed, TokenBucket};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(1));
    /// let mut events = per_tenant.subscribe(1000);
    /// assert!(per_tenant.try_acquire("red", 1).is_ok());
    /// assert!(per_tenant.try_acquire("red", 1).is_err());
    /// let refused = events.find(|it| matches!(it.event.kind, EventKind::Rejected { .. }));
    /// assert_eq!(refused.map(|it| it.key).as_deref(), Some("red"));
    /// ```
    ///
    /// There is no initial event for a key. While there are subscribers, each key that is asked has a whole [`Gate`],
    /// like a key with waiters. There are at most [`max_keys`](super::KeyedBuilder::max_keys) of these gates, and each
    /// is dropped when its key is evicted. Without subscribers, events cost nothing.
    pub fn subscribe(&self, capacity: usize) -> Events<KeyedEvent<K>> {
        let shared = &*self.shared;
        // The lock also serializes concurrent subscriptions.
        let mut kept = shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heard) = kept.as_ref().filter(|heard| Listeners::prune(heard)) {
            return heard.subscribe(capacity);
        }
        let heard = Arc::new(Listeners::new());
        let events = heard.subscribe(capacity);
        *kept = Some(Arc::clone(&heard));
        self.report_to(&heard);
        events
    }

    /// Adds subscribers of another table, so that several tables report as one. Each may be added once.
    #[doc(hidden)]
    pub fn report_to(&self, heard: &Arc<Listeners<KeyedEvent<K>>>) {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        for shard in 0..shared.shards.len() {
            let mut gates: Vec<(K, Lease<R>)> = Vec::new();
            let mut table = shared.locked(shard, now);
            table.heard = Some(Arc::new(Arc::clone(heard)));
            table.open_fast_path();
            table.each(now, |key, view| {
                if let View::Gate(held) = view {
                    gates.push((key.clone(), Lease::new(held)));
                }
            });
            drop(table);
            // Entering a gate serves its waiters, which wakes tasks, so the lock of the shard must be free.
            for (key, gate) in gates {
                OpenFeed::attach(heard, &key, &gate);
            }
        }
    }

    /// Calls a function with each event of all keys from now on, on a thread of its own. See [`Listener`].
    ///
    /// A slow or panicking callback does not affect the limiter.
    ///
    /// ```
    /// use plimsoll::{EventKind, Keyed, TokenBucket};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(1));
    /// let listener = per_tenant.subscribe_with(|it| {
    ///     if let EventKind::Rejected { reason, .. } = it.event.kind {
    ///         eprintln!("{} was refused: {reason:?}", it.key);
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
        callback: impl FnMut(KeyedEvent<K>) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(Listener::CAPACITY).listen(callback)
    }
}

impl<K: Clone + Send + Sync + 'static, R: Rule> OpenFeed<K, R> for Arc<Listeners<KeyedEvent<K>>> {
    fn prune(&self) -> bool {
        Listeners::prune(self)
    }

    fn attach(&self, key: &K, gate: &Gate<R>) {
        gate.add_sink(Box::new(OfKey {
            key: key.clone(),
            heard: Self::clone(self),
        }));
    }

    fn refused(&self, key: K, demand: Demand, denied: &Denied, clock: &Clock) {
        let kind = EventKind::Rejected {
            priority: demand.priority,
            reason: denied.reason(),
        };
        let seen = Snapshot::of(denied.limit(), denied.remaining());
        let event = Event::new(kind, clock.now(), &seen);
        self.emit(KeyedEvent { key, event });
    }
}

/// Passes the events of a gate on, with their key.
struct OfKey<K> {
    key: K,
    heard: Arc<Listeners<KeyedEvent<K>>>,
}

impl<K: Clone + Send + Sync> Sink for OfKey<K> {
    fn emit(&self, event: Event, wake: &mut dyn FnMut(Waker)) -> bool {
        let key = self.key.clone();
        self.heard.store(KeyedEvent { key, event }, wake)
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// The subscribers, if any are left. Without them, the fast path is opened again.
    #[inline]
    pub(super) fn heard(&mut self) -> KeySubscribers<K, R> {
        if self.heard.as_ref().is_some_and(|heard| !heard.prune()) {
            self.heard = None;
            self.open_fast_path();
        }
        self.heard.clone()
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    /// Reports a refusal without a gate to the subscribers, unless the caller asks again.
    pub(super) fn tell_refused<Q, T>(
        &self,
        heard: KeySubscribers<K, R>,
        key: &Q,
        demand: Demand,
        how: How,
        denied: Denied,
    ) -> Result<T, Denied>
    where
        K: From<Q::Owned>,
        Q: ToOwned + ?Sized,
    {
        if let Some(heard) = heard.filter(|_| how != How::Attempt) {
            let key = K::from(key.to_owned());
            heard.refused(key, demand, &denied, &self.gates.clock);
        }
        Err(denied)
    }
}
