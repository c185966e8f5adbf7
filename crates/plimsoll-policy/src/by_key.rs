//! Policies of named operations, as one limit with keys.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll::together::Target;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Event, EventKind, Events, Grant, InvalidLimit, Keyed,
    KeyedEvent, Listener, Listeners, Metadata, PenaltyBucket, PerKey, Permit, Reason, Reservation,
    Snapshot, Standing,
};

use crate::active::SubjectLimits;
use crate::builder::PoliciesBuilder;
use crate::retained::RetainedBucket;
use crate::settings::Settings;
use crate::tiers::{Effective, Policy, TIERS};

/// Policies of named operations, as one limit with keys: `kind: policies` in files.
///
/// A key consists of an operation and its caller, separated by [`|`](Self::SEPARATOR). The caller is any text, such as
/// an address or a user. Each pair of an operation and a caller has a state. Operations of one tier share a table of
/// states, as in [`Policies`](crate::Policies); operations without a policy share the fallback.
///
/// ```
/// use plimsoll::{ManualClock, PerKey, Reason};
/// use plimsoll_policy::{Policies, Policy};
///
/// let handlers = [("login", Policy::per_second(1.0)), ("ban", Policy::per_second(1.0).burst(0.0))];
/// let builder = Policies::builder().clock(ManualClock::new().clock());
/// let policies = builder.by_key("packets", None, handlers)?;
/// let ask = |key| policies.try_acquire(key, 1.into()).map_err(|denied| denied.reason());
/// assert!(ask("login|192.0.2.1").is_ok() && ask("login|192.0.2.2").is_ok());
/// assert_eq!(ask("login|192.0.2.1").unwrap_err(), Reason::SoftThrottle);
/// assert_eq!(ask("ban|192.0.2.1").unwrap_err(), Reason::LockedOut);
/// assert!(ask("move|192.0.2.1").is_ok()); // it has no policy
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
pub struct PolicyKeys {
    name: String,
    metadata: Option<Metadata>,
    clock: Clock,
    handlers: HashMap<String, Effective>,
    /// The tables of tiers that a handler declares.
    tiers: [Option<Arc<Table>>; TIERS],
    /// Its keys have no operation: `|` and the caller.
    fallback: Option<Arc<Table>>,
    /// The subscribers of all tables.
    heard: Mutex<Option<Heard>>,
    /// Whether there may be subscribers.
    is_heard: AtomicBool,
}

pub(crate) type Table = SubjectLimits<String>;

type Heard = Arc<Listeners<KeyedEvent<String>>>;

/// The part that decides on a key.
pub(crate) enum By<'a, 'k> {
    /// A state, by its own key.
    State(&'a Keyed<String, RetainedBucket>, &'k str),
    Unlimited,
    Refused,
}

impl PoliciesBuilder {
    /// Builds one limit with keys from named handlers, with the settings and the fallback of this builder. Refusals carry the name
    /// and the metadata.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of its range, a number of a policy is NaN, or a handler has two policies.
    /// `max_policies`, `policy_idle`, `cleanup_interval`, `ipv6_prefix` and [`handler`](Self::handler) do not apply
    /// here, and are errors if they are set: nothing is swept, callers are texts, and handlers have names.
    pub fn by_key<'a>(
        self,
        name: &str,
        metadata: Option<Metadata>,
        handlers: impl IntoIterator<Item = (&'a str, Policy)>,
    ) -> Result<PolicyKeys, InvalidLimit> {
        if let Some(op) = self.first_handler() {
            return Err(InvalidLimit::new("handler", op, "the name of an operation"));
        }
        let (fallback, mut settings) = self.into_parts()?;
        settings.check_by_key()?;
        settings.about = Some((name.to_owned(), metadata.clone()));
        settings.totals = true;
        let mut keys = PolicyKeys {
            name: name.to_owned(),
            metadata,
            clock: settings.clock.clone(),
            handlers: HashMap::new(),
            tiers: [const { None }; TIERS],
            fallback: fallback
                .map(|bucket| Arc::new(Table::new(PenaltyBucket::new(bucket), &settings))),
            heard: Mutex::new(None),
            is_heard: AtomicBool::new(false),
        };
        for (op, policy) in handlers {
            let effective = policy.effective()?;
            keys.activate(effective, &settings);
            if keys.handlers.insert(op.to_owned(), effective).is_some() {
                return Err(InvalidLimit::new("handler", op, "one policy for each"));
            }
        }
        Ok(keys)
    }
}

impl PolicyKeys {
    /// The separator of an operation and its caller.
    pub const SEPARATOR: char = '|';

    fn activate(&mut self, effective: Effective, settings: &Settings) {
        if let Effective::Limited(tier) = effective {
            let initial = settings.initial_tokens.unwrap_or(u64::MAX);
            self.tiers[tier.index()]
                .get_or_insert_with(|| Arc::new(Table::new(tier.bucket(initial), settings)));
        }
    }

    pub(crate) fn by<'k>(&self, key: &'k str) -> By<'_, 'k> {
        let end = key.find(Self::SEPARATOR).unwrap_or(key.len());
        let (op, who) = key.split_at(end);
        match self.handlers.get(op) {
            Some(Effective::Unlimited) => By::Unlimited,
            Some(Effective::Refused) => By::Refused,
            Some(Effective::Limited(tier)) => match &self.tiers[tier.index()] {
                Some(table) => By::State(table.states(), key),
                None => By::Unlimited,
            },
            None => match &self.fallback {
                Some(table) => By::State(table.states(), who),
                None => By::Unlimited,
            },
        }
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        let tiers = self.tiers.iter().flatten();
        tiers.chain(&self.fallback).map(|table| &**table)
    }

    /// An operation with a burst of 0, which admits no caller.
    fn locked_out(&self) -> Denied {
        let denied = Denied::new(Reason::LockedOut).with_limiter(&self.name);
        match &self.metadata {
            Some(metadata) => denied.with_metadata(metadata),
            None => denied,
        }
    }

    /// Returns the answer of [`try_acquire`](PerKey::try_acquire). Takes nothing, counts nothing and creates no key.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    pub fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        match self.by(key) {
            By::State(states, key) => states.estimate(key, demand),
            By::Unlimited => Ok(()),
            By::Refused => Err(self.locked_out()),
        }
    }

    /// Returns the sum over all keys. The limit is that of the largest tier.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let seen = self.tables().map(|table| table.states().snapshot());
        let largest = seen.reduce(|all, one| {
            let (granted, denied) = (
                all.granted_total().wrapping_add(one.granted_total()),
                all.denied_total().wrapping_add(one.denied_total()),
            );
            let larger = if one.limit() > all.limit() { one } else { all };
            larger.with_totals(granted, denied)
        });
        largest.unwrap_or_else(|| Snapshot::of(u64::MAX, u64::MAX))
    }

    /// Returns the snapshot of one key. `None` if it has no state, and so a full bucket.
    #[must_use]
    pub fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        match self.by(key) {
            By::State(states, key) => states.snapshot_of(key),
            By::Unlimited => None,
            By::Refused => Some(Snapshot::of(0, 0)),
        }
    }

    /// Calls `see` with every key that has usage, and its usage. A key of the fallback has no operation.
    pub fn each_used(&self, see: &mut dyn FnMut(&str, u64)) {
        for table in self.tables() {
            for (key, seen) in table.states().top(usize::MAX) {
                see(&key, seen.in_use());
            }
        }
    }

    /// Subscribes to the events of all keys from now on, each with its key; a key of the fallback has no operation. At most
    /// `capacity` events are stored until they are read; further events are dropped and counted. See [`Events`] and
    /// [`Keyed::subscribe`].
    ///
    /// ```
    /// use plimsoll::PerKey;
    /// use plimsoll_policy::{Policies, Policy};
    ///
    /// let handlers = [("login", Policy::per_second(1.0))];
    /// let policies = Policies::builder().by_key("packets", None, handlers)?;
    /// let events = policies.subscribe(1000);
    /// for key in ["login|192.0.2.1", "move|192.0.2.1"] {
    ///     let _ = policies.try_acquire(key, 1.into());
    /// }
    /// let keys: Vec<String> =
    ///     events.filter(|it| it.event.kind.as_str() == "processing").map(|it| it.key).collect();
    /// assert_eq!(keys, ["login|192.0.2.1", "|192.0.2.1"]);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events<KeyedEvent<String>> {
        let mut kept = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heard) = kept.as_ref().filter(|heard| heard.prune()) {
            return heard.subscribe(capacity);
        }
        // A new list: states may still hold subscribers that have left.
        let heard = Heard::default();
        let events = heard.subscribe(capacity);
        self.tables()
            .for_each(|table| table.states().report_to(&heard));
        *kept = Some(heard);
        self.is_heard.store(true, Ordering::Relaxed);
        events
    }

    /// Calls `callback` with each event from now on, on a thread of its own: a slow or panicking callback does not
    /// affect decisions. See [`Listener`].
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot start a thread.
    pub fn subscribe_with(
        &self,
        callback: impl FnMut(KeyedEvent<String>) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(1024).listen(callback)
    }

    /// Reports a decision without a state.
    #[cold]
    fn tell(&self, key: &str, kind: EventKind) {
        let kept = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = kept.clone().filter(|heard| heard.has_subscribers());
        if heard.is_none() {
            self.is_heard.store(false, Ordering::Relaxed);
        }
        drop(kept);
        if let Some(heard) = heard {
            let event = Event::new(kind, self.clock.now(), &Snapshot::of(0, 0));
            heard.emit(KeyedEvent::new(key.to_owned(), event));
        }
    }

    /// Refuses every demand until [`resume`](Self::resume).
    #[doc(hidden)]
    pub fn pause(&self) {
        self.tables().for_each(|table| table.states().pause());
    }

    /// Ends a pause.
    #[doc(hidden)]
    pub fn resume(&self) {
        self.tables().for_each(|table| table.states().resume());
    }

    /// Returns the number of keys in all tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables().map(SubjectLimits::len).sum()
    }

    /// Returns whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn free(&self, key: &str, demand: Demand) -> Permit<'static> {
        if self.is_heard.load(Ordering::Relaxed) {
            let priority = demand.priority;
            self.tell(key, EventKind::Processing { priority });
        }
        Permit::spent(Grant::of(demand).taken(self.clock.now()))
    }
}

impl PerKey<str> for PolicyKeys {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.by(key) {
            By::State(states, key) => states.try_acquire(key, demand),
            By::Unlimited => Ok(self.free(key, demand)),
            By::Refused => {
                let denied = self.locked_out();
                if self.is_heard.load(Ordering::Relaxed) {
                    let (priority, reason) = (demand.priority, denied.reason());
                    self.tell(key, EventKind::Rejected { priority, reason });
                }
                Err(denied)
            }
        }
    }

    fn attempt(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.by(key) {
            By::State(states, key) => PerKey::attempt(states, key, demand),
            By::Unlimited => Ok(self.free(key, demand)),
            // Not reported: the caller asks again.
            By::Refused => Err(self.locked_out()),
        }
    }

    /// Policies have no queue: a refusal counts towards a lockout.
    fn acquire_owned(&self, key: &str, demand: Demand) -> Acquire<'static> {
        Acquire::ready(self.try_acquire(key, demand).map(Permit::into_owned))
    }

    /// Reserves only tokens that are available now, because policies have no queue.
    fn reserve_owned(&self, key: &str, demand: Demand) -> Result<Reservation<'static>, Denied> {
        match self.by(key) {
            By::State(states, key) => PerKey::reserve_owned(states, key, demand.at_once()),
            _ => (self.try_acquire(key, demand)).map(|it| Reservation::ready(it.into_owned())),
        }
    }

    fn undo(&self, key: &str, permit: Permit<'_>) {
        if let By::State(states, key) = self.by(key) {
            PerKey::undo(states, key, permit);
        }
    }

    fn charge(&self, key: &str, cost: u64) {
        if let By::State(states, key) = self.by(key) {
            PerKey::charge(states, key, cost);
        }
    }

    fn clock(&self) -> Option<&Clock> {
        Some(&self.clock)
    }

    fn standing(&self, key: &str) -> Standing {
        match self.by(key) {
            By::State(states, key) => PerKey::standing(states, key),
            By::Unlimited => Standing::new(u64::MAX, u64::MAX),
            By::Refused => Standing::new(0, 0),
        }
    }

    /// The standing of the largest tier.
    fn promise(&self) -> Standing {
        let promises = self
            .tables()
            .map(|table| PerKey::<str>::promise(table.states()));
        let largest = promises.max_by_key(|promise| promise.limit);
        largest.unwrap_or_else(|| Standing::new(u64::MAX, u64::MAX))
    }

    fn undoes_exactly(&self) -> bool {
        false
    }

    fn has_queue(&self) -> bool {
        false
    }

    fn target(&self, key: &str) -> Option<Result<Target, Denied>> {
        match self.by(key) {
            By::State(states, key) => PerKey::target(states, key),
            _ => None,
        }
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }
}

impl std::fmt::Debug for PolicyKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyKeys")
            .field("name", &self.name)
            .field("handlers", &self.handlers.len())
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}
