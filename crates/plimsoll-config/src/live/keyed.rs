use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::kinds::Kind;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Keyed, PerKey, Permit, Reason, Rule, Snapshot, Standing, Terms,
};

use super::written::written;

/// A limiter with `keyed: true`: a state for each key. A clone is the same limiter.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_config::{Config, Format};
///
/// let text = "limiters: { user: { kind: token_bucket, burst: 1, refill: 1, every: 1s, keyed: true } }";
/// let limits = Config::from_str("limits.yaml", text, Format::Yaml)?.build(&Clock::system())?;
/// let per_user = limits.keyed("user").unwrap();
/// assert!(per_user.try_acquire("anna", 1).is_ok());
/// assert!(per_user.try_acquire("anna", 1).is_err());
/// assert!(per_user.try_acquire("bert", 1).is_ok());
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
///
/// # In a store
///
/// One with a `store` is decided by the store, so it is asked with [`acquire`](Self::acquire), on tokio. The others answer at
/// once, and know only what is known in this process: what was borrowed, and what is answered while there is no
/// store. Of everything else they say [`Unavailable`](Reason::Unavailable).
#[derive(Clone)]
pub struct KeyedLimiter {
    inside: Arc<Inside>,
}

struct Inside {
    name: String,
    kind: Kind,
    closed: AtomicBool,
    keys: Box<dyn Keys>,
}

impl KeyedLimiter {
    pub(super) fn new(name: &str, keys: impl Keys + 'static) -> Self {
        let kind = if keys.terms().gives_back {
            Kind::Resource
        } else {
            Kind::Rate
        };
        Self {
            inside: Arc::new(Inside {
                name: name.to_owned(),
                kind,
                closed: AtomicBool::new(false),
                keys: Box::new(keys),
            }),
        }
    }

    /// Takes for `key` now, or is refused.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why, and when to try again.
    pub fn try_acquire(&self, key: &str, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        self.check()?;
        self.inside.keys.try_acquire(key, demand.into())
    }

    /// Takes for `key`, waiting in the queue of the key if there is one.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why.
    pub async fn acquire(
        &self,
        key: &str,
        demand: impl Into<Demand>,
    ) -> Result<Permit<'static>, Denied> {
        self.check()?;
        self.inside.keys.acquire_owned(key, demand.into()).await
    }

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing and leaves no key behind.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn estimate(&self, key: &str, demand: impl Into<Demand>) -> Result<(), Denied> {
        self.check()?;
        self.inside.keys.estimate(key, demand.into())
    }

    /// All keys together. Of what is kept in a store: the limit of a key, and what this process granted and refused.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.inside.keys.snapshot()
    }

    /// One key; `None` if it is not known, and so as good as new. What is kept in a store is not known here.
    #[must_use]
    pub fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        self.inside.keys.snapshot_of(key)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inside.name
    }

    /// Whether it is a rate or a resource.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.inside.kind
    }

    /// Refuses everybody who waits and everybody who comes.
    pub fn close(&self) {
        self.inside.closed.store(true, Ordering::Relaxed);
        self.inside.keys.refuse_waiters();
    }

    fn check(&self) -> Result<(), Denied> {
        if self.inside.closed.load(Ordering::Relaxed) {
            return Err(Denied::new(Reason::Closed).with_limiter(&self.inside.name));
        }
        Ok(())
    }
}

impl fmt::Debug for KeyedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("name", &self.inside.name)
            .field("kind", &self.inside.kind)
            .finish_non_exhaustive()
    }
}

/// So it can stand in a layer, by any key that can be written as text: a name, a number, an
/// [`Address`](plimsoll::Address). Two keys that are written the same share a limit.
///
/// ```
/// use plimsoll::{Address, Clock, PerKey};
/// use plimsoll_config::{Config, Format};
///
/// let text = "limiters: { client: { kind: token_bucket, burst: 1, refill: 1, every: 1s, keyed: true } }";
/// let limits = Config::from_str("limits.yaml", text, Format::Yaml)?.build(&Clock::system())?;
/// let per_client = limits.keyed("client").unwrap();
/// let client = Address::from(std::net::IpAddr::from([192, 0, 2, 1]));
/// assert!(PerKey::try_acquire(&per_client, &client, 1.into()).is_ok());
/// assert!(per_client.try_acquire("192.0.2.1", 1).is_err());
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
impl<Q: fmt::Display + ?Sized> PerKey<Q> for KeyedLimiter {
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        written(key, |key| Self::try_acquire(self, key, demand))
    }

    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.check()?;
        written(key, |key| self.inside.keys.attempt(key, demand))
    }

    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static> {
        match self.check() {
            Ok(()) => written(key, |key| self.inside.keys.acquire_owned(key, demand)),
            Err(denied) => Acquire::ready(Err(denied)),
        }
    }

    fn undo(&self, key: &Q, permit: Permit<'_>) {
        written(key, |key| self.inside.keys.undo(key, permit));
    }

    fn charge(&self, key: &Q, cost: u32) {
        written(key, |key| self.inside.keys.charge(key, cost));
    }

    fn settle(&self, key: &Q, permit: &mut Permit<'_>, cost: u32) {
        written(key, |key| self.inside.keys.settle(key, permit, cost));
    }

    fn clock(&self) -> Option<&Clock> {
        self.inside.keys.clock()
    }

    fn standing(&self, key: &Q) -> Option<Standing> {
        written(key, |key| self.inside.keys.standing(key))
    }

    fn terms(&self) -> Terms {
        self.inside.keys.terms()
    }

    fn is_remote(&self) -> bool {
        self.inside.keys.is_remote()
    }

    fn name(&self) -> Option<&str> {
        Some(Self::name(self))
    }
}

/// A keyed limit, whatever its rule.
pub(super) trait Keys: PerKey<str> {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied>;
    fn snapshot(&self) -> Snapshot;
    fn snapshot_of(&self, key: &str) -> Option<Snapshot>;
    fn refuse_waiters(&self);
}

impl<R: Rule + Clone> Keys for Keyed<String, R> {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, key, demand)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        Self::snapshot_of(self, key)
    }

    /// Only a key that somebody waits for is a limiter that can be closed.
    fn refuse_waiters(&self) {
        for (key, one) in self.top(usize::MAX) {
            if one.waiters() > 0
                && let Ok(gate) = self.gate(key.as_str())
            {
                gate.close();
            }
        }
    }
}
