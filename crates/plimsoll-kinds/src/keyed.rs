use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use plimsoll::together::Target;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Keyed, Metadata, PerKey, Permit, Rule, Snapshot, Standing,
};

use crate::any::LimiterKind;
use crate::key_text::with_text;

/// A limit with keys and a rule that is known only at run time. [`AnyLimiter`](crate::AnyLimiter) is its counterpart
/// for limits without keys. Clones share the limit.
///
/// Keys are text, such as names, numbers, and the text of [addresses](plimsoll::Address). Keys with the same text share
/// a state.
///
/// ```
/// use plimsoll::{Address, Keyed, PerKey, TokenBucket};
/// use plimsoll_kinds::{KeyedLimiter, LimiterKind};
///
/// let per_client = KeyedLimiter::from(Keyed::new(TokenBucket::per_second(1)));
/// assert_eq!(per_client.kind(), LimiterKind::Rate);
/// let client = Address::from(std::net::IpAddr::from([192, 0, 2, 1]));
/// assert!(PerKey::try_acquire(&per_client, &client, 1.into()).is_ok());
/// assert!(per_client.try_acquire("192.0.2.1", 1).is_err());
/// assert!(per_client.try_acquire("192.0.2.2", 1).is_ok());
/// ```
///
/// # From a file
///
/// A limiter with `keyed: true` follows its name through every reload of the file. If a reload makes it a limiter
/// without keys, all keys share it.
///
/// A limiter with a `store` is decided by the store: use [`acquire`](Self::acquire), on tokio. The other methods answer
/// at once, from the state of this process: permits that it has borrowed, or the answer that is set for an outage.
/// Otherwise they refuse with [`Unavailable`](plimsoll::Reason::Unavailable).
#[derive(Clone)]
pub struct KeyedLimiter(Arc<dyn TextKeys>);

/// A limit with text keys, from which a [`KeyedLimiter`] is made: a [`Keyed`] of `String`, or of another type that implements
/// `Borrow<str>`.
pub trait TextKeys: PerKey<str> {
    /// Returns the answer that [`try_acquire`](PerKey::try_acquire) would give. Takes nothing and creates no key.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied>;

    /// Like [`estimate`](Self::estimate), as if `charged` had been charged before.
    #[doc(hidden)]
    fn estimate_after(&self, key: &str, charged: u64, demand: Demand) -> Result<(), Denied> {
        self.estimate(key, demand.cost(demand.cost.saturating_add(charged)))
    }

    /// Returns a snapshot of all keys together.
    fn snapshot(&self) -> Snapshot;

    /// Returns the snapshot of one key. `None` if it has no state.
    fn snapshot_of(&self, key: &str) -> Option<Snapshot>;

    /// Returns the number of keys in memory. `None` if they are in a store.
    fn key_count(&self) -> Option<usize> {
        None
    }

    /// Returns whether it is a rate or a resource.
    fn kind(&self) -> LimiterKind;

    /// Closes the limit: refuses all waiters and all later demands.
    fn close(&self);
}

impl<K, R> TextKeys for Keyed<K, R>
where
    K: Borrow<str> + From<String> + Hash + Eq + Send + Sync + 'static,
    R: Rule + Clone,
{
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, key, demand)
    }

    fn estimate_after(&self, key: &str, charged: u64, demand: Demand) -> Result<(), Denied> {
        Self::estimate_after(self, key, charged, demand)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        Self::snapshot_of(self, key)
    }

    fn key_count(&self) -> Option<usize> {
        Some(self.len())
    }

    fn kind(&self) -> LimiterKind {
        if R::RETURNS_PERMITS {
            LimiterKind::Resource
        } else {
            LimiterKind::Rate
        }
    }

    fn close(&self) {
        Self::close(self);
    }
}

impl<R: Rule + Clone> From<Keyed<String, R>> for KeyedLimiter {
    fn from(keyed: Keyed<String, R>) -> Self {
        Self::new(keyed)
    }
}

impl KeyedLimiter {
    /// Wraps a limit with text keys.
    pub fn new(keys: impl TextKeys + 'static) -> Self {
        Self(Arc::new(keys))
    }

    /// Returns the limit as a trait object.
    #[must_use]
    pub const fn shared(&self) -> &Arc<dyn TextKeys> {
        &self.0
    }

    /// Takes permits of `key` now, or refuses the demand.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] with the reason, and when to try again.
    pub fn try_acquire(&self, key: &str, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        self.0.try_acquire(key, demand.into())
    }

    /// Takes permits of `key`, and waits in the queue of the key if there is one.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed};
    /// use plimsoll_kinds::KeyedLimiter;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let per_host = KeyedLimiter::from(Keyed::new(Concurrency::new(1)));
    /// let permit = per_host.acquire("db1", 1).await?;
    /// assert!(per_host.acquire("db1", 1).await.is_err(), "it has no queue");
    /// # drop(permit);
    /// # Ok::<(), plimsoll::Denied>(()) }).unwrap();
    /// ```
    ///
    /// The future borrows neither the limit nor the key. Nothing is taken before its first poll. Dropping it leaves the
    /// queue, and loses no permit.
    ///
    /// # Errors
    ///
    /// The future returns [`Denied`], which holds the reason.
    pub fn acquire(&self, key: &str, demand: impl Into<Demand>) -> Acquire<'static> {
        self.0.acquire_owned(key, demand.into())
    }

    /// Returns the answer that [`try_acquire`](Self::try_acquire) would give. Takes nothing and creates no key.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    pub fn estimate(&self, key: &str, demand: impl Into<Demand>) -> Result<(), Denied> {
        self.0.estimate(key, demand.into())
    }

    /// Returns the sum over all keys. For a limit in a store: the limit of one key, and the grants and refusals of this
    /// process.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// Returns the snapshot of one key. `None` if it has no state in memory.
    #[must_use]
    pub fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        self.0.snapshot_of(key)
    }

    /// Returns the name of the limit; empty if it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name().unwrap_or_default()
    }

    /// Returns whether it is a rate or a resource.
    #[must_use]
    pub fn kind(&self) -> LimiterKind {
        self.0.kind()
    }

    /// Closes the limit: refuses all waiters and all later demands.
    pub fn close(&self) {
        self.0.close();
    }
}

impl fmt::Debug for KeyedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("name", &self.name())
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

impl<Q: fmt::Display + ?Sized> PerKey<Q> for KeyedLimiter {
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        with_text(key, |key| self.0.try_acquire(key, demand))
    }

    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        with_text(key, |key| self.0.attempt(key, demand))
    }

    fn attempt_owned(&self, key: &Q, demand: Demand) -> Option<Permit<'static>> {
        with_text(key, |key| self.0.attempt_owned(key, demand))
    }

    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static> {
        with_text(key, |key| self.0.acquire_owned(key, demand))
    }

    fn undo(&self, key: &Q, permit: Permit<'_>) {
        with_text(key, |key| self.0.undo(key, permit));
    }

    fn charge(&self, key: &Q, cost: u64) {
        with_text(key, |key| self.0.charge(key, cost));
    }

    fn settle(&self, key: &Q, permit: &mut Permit<'_>, cost: u64) {
        with_text(key, |key| self.0.settle(key, permit, cost));
    }

    fn clock(&self) -> Option<&Clock> {
        self.0.clock()
    }

    fn standing(&self, key: &Q) -> Standing {
        with_text(key, |key| self.0.standing(key))
    }

    fn promise(&self) -> Standing {
        self.0.promise()
    }

    fn is_remote(&self) -> bool {
        self.0.is_remote()
    }

    fn undoes_exactly(&self) -> bool {
        self.0.undoes_exactly()
    }

    fn has_queue(&self) -> bool {
        self.0.has_queue()
    }

    fn target(&self, key: &Q) -> Option<Result<Target, Denied>> {
        with_text(key, |key| self.0.target(key))
    }

    fn name(&self) -> Option<&str> {
        self.0.name()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.0.metadata()
    }
}
