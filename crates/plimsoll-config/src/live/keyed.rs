use std::fmt;
use std::sync::Arc;

use plimsoll::together::Target;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Keyed, LimiterExt, Outcome, PerKey, Permit, Rule,
    Snapshot, Standing,
};
use plimsoll_kinds::LimiterKind;

use super::handle::settled;
use super::key_text::with_text;
use super::replaced::Watch;
use super::slot::Slot;
use super::waiting::Wait;

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
/// It follows its name through every change of the file, whatever stands behind it then. If that has no keys any more, all
/// keys share it.
///
/// # In a store
///
/// One with a `store` is decided by the store, so it is asked with [`acquire`](Self::acquire), on tokio. The others answer at
/// once, and know only what is known in this process: what was borrowed, and what is answered while there is no
/// store. Of everything else they say [`Unavailable`](plimsoll::Reason::Unavailable).
#[derive(Clone)]
pub struct KeyedLimiter {
    slot: Arc<Slot>,
}

impl KeyedLimiter {
    pub(super) const fn new(slot: Arc<Slot>) -> Self {
        Self { slot }
    }

    /// Takes for `key` now, or is refused.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why, and when to try again.
    pub fn try_acquire(&self, key: &str, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        let demand = demand.into();
        self.ask_for(|keys| keys.try_acquire(key, demand))
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
        PerKey::acquire_owned(self, key, demand.into()).await
    }

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing and leaves no key behind.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn estimate(&self, key: &str, demand: impl Into<Demand>) -> Result<(), Denied> {
        let demand = demand.into();
        self.slot
            .ask(|generation| generation.keys.estimate(key, demand))
    }

    /// All keys together. Of what is kept in a store: the limit of a key, and what this process granted and refused.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.slot.snapshot(|generation| generation.keys.snapshot())
    }

    /// One key; `None` if it is not known, and so as good as new. What is kept in a store is not known here.
    #[must_use]
    pub fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        self.slot.latest().keys.snapshot_of(key)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.slot.name()
    }

    /// Whether it is a rate or a resource.
    #[must_use]
    pub fn kind(&self) -> LimiterKind {
        self.slot.latest().class
    }

    /// Refuses everybody who waits and everybody who comes.
    pub fn close(&self) {
        self.slot.close();
    }

    fn ask_for(
        &self,
        ask: impl for<'k> Fn(&'k dyn Keys) -> Result<Permit<'k>, Denied>,
    ) -> Result<Permit<'_>, Denied> {
        if let Some(generation) = self.slot.direct() {
            let answer = ask(&*generation.keys);
            if let Some(answer) = settled(generation, answer) {
                return answer;
            }
        }
        self.slot.ask(|generation| {
            let permit = ask(&*generation.keys)?;
            Ok(generation.own_shared(permit.into_owned()))
        })
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
        with_text(key, |key| Self::try_acquire(self, key, demand))
    }

    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        with_text(key, |key| self.ask_for(|keys| keys.attempt(key, demand)))
    }

    fn attempt_owned(&self, key: &Q, demand: Demand) -> Option<Permit<'static>> {
        with_text(key, |key| {
            if let Some(generation) = self.slot.direct() {
                let permit = generation.keys.attempt_owned(key, demand)?;
                return Some(generation.own_shared(permit));
            }
            let generation = self.slot.current().ok()?;
            let permit = generation.keys.attempt_owned(key, demand)?;
            Some(generation.own_shared(permit))
        })
    }

    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static> {
        let wait = with_text(key, |key| {
            Wait::new(Arc::clone(&self.slot), Some(key), demand)
        });
        Acquire::from_future(wait)
    }

    fn undo(&self, key: &Q, permit: Permit<'_>) {
        with_text(key, |key| self.slot.latest().keys.undo(key, permit));
    }

    fn charge(&self, key: &Q, cost: u64) {
        with_text(key, |key| self.slot.latest().keys.charge(key, cost));
    }

    fn settle(&self, key: &Q, permit: &mut Permit<'_>, cost: u64) {
        with_text(key, |key| {
            self.slot.latest().keys.settle(key, permit, cost);
        });
    }

    fn clock(&self) -> Option<&Clock> {
        Some(self.slot.clock())
    }

    fn standing(&self, key: &Q) -> Standing {
        with_text(key, |key| self.slot.latest().keys.standing(key))
    }

    fn promise(&self) -> Standing {
        self.slot.latest().keys.promise()
    }

    fn is_remote(&self) -> bool {
        self.slot.latest().keys.is_remote()
    }

    fn undoes_exactly(&self) -> bool {
        self.slot.latest().keys.undoes_exactly()
    }

    fn has_queue(&self) -> bool {
        self.slot.latest().keys.has_queue()
    }

    fn target(&self, key: &Q) -> Option<Result<Target, Denied>> {
        with_text(key, |key| match self.slot.current() {
            Ok(generation) => {
                let target = generation.keys.target(key)?;
                let watch = Watch::new(Arc::clone(&self.slot), generation);
                Some(target.map(|target| target.watched(watch)))
            }
            Err(denied) => Some(Err(denied)),
        })
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
    /// Every key of which something is in use, and how much.
    fn each_used(&self, see: &mut dyn FnMut(&str, u64));
    /// Gives back what was granted for `key`.
    fn give_back(&self, key: &str, grant: Grant, outcome: Outcome);
    fn its_clock(&self) -> &Clock;
}

/// A keyed limit in memory, and the clock it goes by.
pub(super) struct InMemory<R: Rule> {
    pub(super) keyed: Keyed<String, R>,
    pub(super) clock: Clock,
}

impl<R: Rule + Clone> PerKey<str> for InMemory<R> {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.keyed.try_acquire(key, demand)
    }

    fn attempt(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        PerKey::attempt(&self.keyed, key, demand)
    }

    fn attempt_owned(&self, key: &str, demand: Demand) -> Option<Permit<'static>> {
        self.keyed.attempt_owned(key, demand)
    }

    fn acquire_owned(&self, key: &str, demand: Demand) -> Acquire<'static> {
        self.keyed.acquire_owned(key, demand)
    }

    fn undo(&self, key: &str, permit: Permit<'_>) {
        self.keyed.undo(key, permit);
    }

    fn charge(&self, key: &str, cost: u64) {
        self.keyed.charge(key, cost);
    }

    fn settle(&self, key: &str, permit: &mut Permit<'_>, cost: u64) {
        PerKey::settle(&self.keyed, key, permit, cost);
    }

    fn clock(&self) -> Option<&Clock> {
        Some(&self.clock)
    }

    fn standing(&self, key: &str) -> Standing {
        self.keyed.standing(key)
    }

    fn promise(&self) -> Standing {
        self.keyed.promise()
    }

    fn undoes_exactly(&self) -> bool {
        PerKey::<str>::undoes_exactly(&self.keyed)
    }

    fn has_queue(&self) -> bool {
        PerKey::<str>::has_queue(&self.keyed)
    }

    fn target(&self, key: &str) -> Option<Result<Target, Denied>> {
        self.keyed.target(key)
    }

    fn name(&self) -> Option<&str> {
        PerKey::<str>::name(&self.keyed)
    }
}

impl<R: Rule + Clone> Keys for InMemory<R> {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        self.keyed.estimate(key, demand)
    }

    fn snapshot(&self) -> Snapshot {
        self.keyed.snapshot()
    }

    fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        self.keyed.snapshot_of(key)
    }

    fn each_used(&self, see: &mut dyn FnMut(&str, u64)) {
        for (key, seen) in self.keyed.top(usize::MAX) {
            see(&key, seen.in_use());
        }
    }

    fn give_back(&self, key: &str, grant: Grant, outcome: Outcome) {
        if R::RETURNS_PERMITS
            && let Ok(gate) = self.keyed.gate(key)
            && let Some(source) = LimiterExt::source(&gate)
        {
            source.give_back(grant, outcome);
        }
    }

    fn its_clock(&self) -> &Clock {
        &self.clock
    }
}
