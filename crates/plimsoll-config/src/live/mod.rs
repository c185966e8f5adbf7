//! Running limits, and replacing their configuration while they are used.
//!
//! Handles ([`Handle`], [`KeysOfName`](keyed::KeysOfName)) hold a [`Binding`](binding::Binding): a name, and the present
//! [`Version`](version::Version) of its limiter. [`Limits::replace`] [compares](compare) two configurations, then either
//! changes a limiter [in place](in_place) or puts another version behind its name, with usage, permits and
//! [waiters](waiting).

mod adapters;
mod apply;
mod binding;
mod build;
mod by_key;
mod carry;
mod changes;
mod compare;
mod gates;
mod handle;
mod in_place;
mod keyed;
mod replaced;
mod reserved;
mod saved;
mod set;
mod start;
#[cfg_attr(not(feature = "redis"), path = "no_stores.rs")]
mod stores;
mod version;
mod waiting;
mod watch;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plimsoll::Clock;
use plimsoll_ambient::{Sampler, SamplerThread};
use plimsoll_kinds::{AnyLimiter, KeyedLimiter, Provider};
use plimsoll_spec::{Kind, Problem, Store};

use self::apply::Work;
use self::build::Running;
use self::compare::{Compared, Outcome};
use self::gates::{Live, Member};
use self::saved::Earlier;
use self::stores::Stores;
use crate::check::Definition;
use crate::{Config, ConfigError};

pub use changes::{Change, ChangeKind, Changes, FieldChange, FreshReason, StateOutcome};
pub use saved::{Restore, Saved};
pub use set::{LimitSet, Part, Route};
pub use watch::{FileWatch, FileWatcher};

/// The limiters of a configuration, by name. The configuration can be [replaced](Self::replace) while they are used.
///
/// Handles follow their name through every change, so a limiter need be looked up only once.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_config::{Config, Format};
///
/// let read = |text| Config::from_str("limits.yaml", text, Format::Yaml);
/// let limits = read("limiters: { disk: { kind: concurrency, limit: 1 } }")?.build(&Clock::system())?;
/// let disk = limits.limiter("disk").unwrap();
/// let permit = disk.try_acquire(1.into()).unwrap();
/// assert!(disk.try_acquire(1.into()).is_err());
///
/// let changes = limits.replace(&read("limiters: { disk: { kind: concurrency, limit: 2 } }")?)?;
/// assert_eq!(changes.changed, ["disk"]);
/// assert!(disk.try_acquire(1.into()).is_ok()); // the same limiter, and the permit still counts
/// # drop(permit);
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
pub struct Limits {
    clock: Clock,
    sampler: Sampler,
    /// Whether these limits start the thread that measures.
    drives: bool,
    /// The thread, while anything is measured.
    sampling: Mutex<Option<SamplerThread>>,
    /// Locked during a change. The removed limiters that are still held: the file may have them again later.
    removed: Mutex<HashMap<String, Arc<Live>>>,
    now: RwLock<Arc<LimitSet>>,
}

impl Limits {
    /// Returns the current set of limiters, to look up several parts of one configuration. A reload makes a new set.
    #[must_use]
    pub fn current(&self) -> Arc<LimitSet> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the limiter with this name. `None` if there is none, or if it has keys.
    #[must_use]
    pub fn limiter(&self, name: &str) -> Option<AnyLimiter> {
        match self.current().get(name)? {
            Part::Limiter(limiter) => Some(limiter),
            _ => None,
        }
    }

    /// Returns the limiter with this name. `None` if there is none, or if it has no keys.
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "limits: { user: { rate: 1/s, key: header:x-user } }";
    /// let limits = Config::from_str("limits.yaml", text, Format::Yaml)?.build(&Clock::system())?;
    /// let user = limits.keyed("user").unwrap();
    /// assert!(user.try_acquire("anna", 1).is_ok());
    /// assert!(user.try_acquire("anna", 1).is_err());
    /// assert!(limits.limiter("user").is_none());
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn keyed(&self, name: &str) -> Option<KeyedLimiter> {
        match self.current().get(name)? {
            Part::Keyed(keyed) => Some(keyed),
            _ => None,
        }
    }

    /// Returns the provider with this name.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<Provider> {
        self.current().provider(name).cloned()
    }

    /// Returns the list of middleware with this name, in its order.
    #[must_use]
    pub fn middleware(&self, name: &str) -> Option<Vec<Part>> {
        self.current().middleware(name)
    }

    /// Returns the first route that matches a path.
    #[must_use]
    pub fn route(&self, path: &str) -> Option<Arc<Route>> {
        self.current().route(path).cloned()
    }

    /// Returns the sampler of memory and processor time.
    #[must_use]
    pub const fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Reads a file, and [replaces](Self::replace) the configuration with it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or has mistakes, or if memory or processor time cannot be measured.
    /// Nothing is then changed.
    pub fn replace_file(&self, path: impl AsRef<Path>) -> Result<Changes, ConfigError> {
        self.replace(&Config::from_file(path)?)
    }

    /// Replaces the configuration by `config`.
    ///
    /// Names, providers and routes change atomically; limiters change one by one. Handles stay valid. Usage is kept,
    /// permits in use count until they are returned, and waiters keep waiting, whatever kind the limiter becomes. The
    /// state in a store stays there and is read by the new rule; other processes use their own rule until they reload
    /// too. A limiter that the file no longer has refuses with the reason `closed`, until the file has it again.
    ///
    /// If a limiter is held as a [`Rate`](plimsoll_kinds::Rate) and becomes a limit whose permits are returned, those permits are
    /// returned at once, because a `Rate` cannot hold one.
    ///
    /// # Errors
    ///
    /// Returns an error if memory or processor time is limited and cannot be measured. Nothing is then changed.
    pub fn replace(&self, config: &Config) -> Result<Changes, ConfigError> {
        self.replace_from(config, &[])
    }

    /// Like [`replace`](Self::replace), with the saved state of an earlier process for limiters that are added.
    fn replace_from(&self, config: &Config, saved: &[Saved]) -> Result<Changes, ConfigError> {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.retain(|_, live| Arc::strong_count(live) > 1 || live.matters());
        let old = self.current();
        let compared = Compared::new(&old.config, config);
        let mut outcomes = Vec::with_capacity(config.plan.definitions.len());
        let mut running = Running::new();
        let mut work = Work::default();
        let stores = Stores::of(config, &old.config, &old.stores, &self.clock)?;
        for definition in &config.plan.definitions {
            let id = definition.id.as_str();
            let building = Building {
                config,
                before: old.running.get(id).or_else(|| removed.get(id)),
                is_new: !old.running.contains_key(id),
                running: &running,
                stores: &stores,
                earlier: Earlier::of(definition, saved),
            };
            let (live, what, state) = self.live(&building, definition, &mut work)?;
            if building.is_new && building.before.is_some() {
                work.restore(&live.binding);
            }
            outcomes.push(compared.outcome(old.running.get(id), &live, what, state));
            running.insert(id.to_owned(), live);
        }
        let providers = build::providers(config, &running)?;
        let mut set = LimitSet {
            config: config.clone(),
            running,
            stores,
            providers,
            routes: Vec::new(),
        };
        set.routes = build::routes(config, |name| set.get(name));
        self.measure(config)?;
        // From here on nothing can fail.
        removed.retain(|id, _| !set.running.contains_key(id));
        work.run();
        let set = Arc::new(set);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&set);
        let mut changes = Changes::default();
        outcomes.into_iter().for_each(|it| changes.note(it));
        for definition in &old.config.plan.definitions {
            let id = &definition.id;
            if let Some(gone) = old
                .running
                .get(id)
                .filter(|_| !set.running.contains_key(id))
            {
                changes.note(Outcome::removed(gone));
                gone.binding.remove();
                removed.insert(id.clone(), Arc::clone(gone));
            }
        }
        changes.settings = compared.settings();
        Ok(changes)
    }

    /// The limiter of a definition: the present one, unchanged or to be changed, or another one behind the same name. Also returns
    /// the kind of the change, `None` if there is none, and what it does to the state.
    fn live(
        &self,
        building: &Building<'_>,
        to: &Definition,
        work: &mut Work,
    ) -> Result<(Arc<Live>, Option<ChangeKind>, StateOutcome), ConfigError> {
        let Building {
            config,
            before,
            is_new,
            running,
            stores,
            earlier,
        } = *building;
        let store = config.store_of(to);
        let members = || apply::members(to, running, config);
        let Some(live) = before else {
            let definition = earlier.learned().map(|limit| build::from_limit(to, limit));
            let definition = definition.as_ref().unwrap_or(to);
            let time = (&self.clock, &self.sampler);
            let began = earlier.began(to);
            let built = build::build(config, definition, running, stores, time, began)?;
            let mut new = Live::new(built, to, store, &self.clock);
            new.members = members();
            let fresh = StateOutcome::Fresh(FreshReason::New);
            return Ok((Arc::new(new), Some(ChangeKind::Added), fresh));
        };
        let from = &live.definition;
        let what = |what: ChangeKind| if is_new { ChangeKind::Added } else { what };
        let is_all = matches!(to.limiter.kind, Kind::All { .. });
        let same = if is_all {
            same_all(live, to, &members())
        } else {
            from.limiter == to.limiter && live.store.as_ref() == store
        };
        if same {
            let back = is_new.then_some(ChangeKind::Added);
            return Ok((Arc::clone(live), back, StateOutcome::Preserved));
        }
        let same_place = live.store.as_ref().map(Store::place) == store.map(Store::place);
        // The gate owns its metadata: other metadata needs another gate.
        let same_words = from.limiter.common.metadata == to.limiter.common.metadata;
        if same_place && same_words && live.change.is_possible(to) {
            let prepared = live.prepare(to, stores);
            let prepared = prepared.map_err(|message| build::wrong(config, to, message))?;
            work.change(prepared);
            let changed = Arc::new(live.described(to, store));
            return Ok(match from.limiter.kind.word() == to.limiter.kind.word() {
                true => (
                    changed,
                    Some(what(ChangeKind::Changed)),
                    StateOutcome::Preserved,
                ),
                false => (
                    changed,
                    Some(what(ChangeKind::Replaced)),
                    StateOutcome::CarriedOver,
                ),
            });
        }
        let replaced = Some(what(ChangeKind::Replaced));
        if let Some(past) = live.binding.past(to) {
            // An earlier version with state that still counts.
            work.change(past.prepare(to));
            let new = Live::behind(Arc::clone(&live.binding), past.change, to, store);
            work.replace(live, &new, past.version);
            return Ok((Arc::new(new), replaced, StateOutcome::CarriedOver));
        }
        let definition = build::starting(live, to);
        let time = (&self.clock, &self.sampler);
        let built = build::build(config, &definition, running, stores, time, None)?;
        let next = built.version(to);
        let mut new = Live::behind(Arc::clone(&live.binding), built.change, to, store);
        new.members = members();
        work.replace(live, &new, next);
        let state = StateOutcome::behind_another(from, to, same_place);
        Ok((Arc::new(new), replaced, state))
    }

    /// Starts measuring, if a limiter needs it.
    fn measure(&self, config: &Config) -> Result<(), ConfigError> {
        let ambient =
            |it: &&Definition| matches!(it.limiter.kind, Kind::Memory { .. } | Kind::Cpu { .. });
        let mut sampling = self.sampling.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ambient = config.plan.definitions.iter().filter(ambient);
        let Some(first) = ambient.next().filter(|_| self.drives) else {
            *sampling = None;
            return Ok(());
        };
        if sampling.is_none() {
            let thread = self.sampler.spawn().map_err(|error| {
                let message = format!("there is no thread to measure with: {error}");
                let problem = Problem::new(first.place, message);
                config.error(problem.under_key(&first.id).under_key(first.section))
            })?;
            *sampling = Some(thread);
        }
        Ok(())
    }
}

/// The input for building a limiter.
struct Building<'a> {
    config: &'a Config,
    /// The present limiter of its name.
    before: Option<&'a Arc<Live>>,
    /// Whether the last file did not have the name.
    is_new: bool,
    /// The limiters that run already.
    running: &'a Running,
    stores: &'a Stores,
    earlier: Earlier<'a>,
}

/// Whether an `all` has the same members by name, and each is in a store or not as before.
fn same_all(live: &Live, to: &Definition, members: &[Member]) -> bool {
    let from = &live.definition;
    let same = |(a, b): (&Member, &Member)| Arc::ptr_eq(&a.0, &b.0) && a.1 == b.1;
    matches!(from.limiter.kind, Kind::All { .. })
        && from.name() == to.name()
        && from.class == to.class
        && live.members.len() == members.len()
        && live.members.iter().zip(members).all(same)
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limits").field(&self.current()).finish()
    }
}
