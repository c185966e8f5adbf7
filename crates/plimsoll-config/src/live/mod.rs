//! Limits that run, and how a new configuration takes the place of the old one.

mod build;
mod gates;
mod keyed;
mod set;
#[cfg_attr(not(feature = "redis"), path = "no_stores.rs")]
mod stores;
mod written;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plimsoll::Clock;
use plimsoll::kinds::{AnyLimiter, Provider};
use plimsoll_ambient::{Sampler, SamplerThread};

use self::build::Running;
use self::gates::{Live, Prepared};
use self::stores::Stores;
use crate::check::Definition;
use crate::spec::{Kind, Store};
use crate::{Config, ConfigError};

#[cfg(test)]
pub(crate) use gates::queue_of;
pub use keyed::KeyedLimiter;
pub use set::{LimitSet, Part, Route};

/// What [`Limits::replace`] did, by the names of limiters. A limiter that is described inside of another is called by
/// its path, as `both.of[1]`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Changes {
    /// The same limiters, with their state and who waits: their descriptions are the same.
    pub kept: Vec<String>,
    /// The same limiters with other limits: what was in them was carried over, and who waits still does.
    pub changed: Vec<String>,
    /// Others in their place, because a limiter cannot become of another kind, have another queue, or move to or from a
    /// store. The old ones are closed.
    pub replaced: Vec<String>,
    /// New ones.
    pub added: Vec<String>,
    /// Closed.
    pub removed: Vec<String>,
}

/// The limits of a configuration, by name, and the way to change them while they are used.
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
    /// While anything is measured.
    sampling: Mutex<Option<SamplerThread>>,
    /// One at a time.
    changing: Mutex<()>,
    now: RwLock<Arc<LimitSet>>,
}

impl Config {
    /// Builds the limiters, on `clock`. An adaptive limit times work, and wants [`Clock::precise`]. What is kept in a store
    /// goes by the clock of the store.
    ///
    /// Where memory or processor time is limited, a thread measures it as long as the limits live. Stores are not connected
    /// to before a limiter in them is asked.
    ///
    /// # Errors
    ///
    /// If memory or processor time is to be limited and cannot be measured here.
    pub fn build(&self, clock: &Clock) -> Result<Limits, ConfigError> {
        let empty = LimitSet {
            config: self.clone(),
            running: Running::new(),
            stores: Stores::default(),
            providers: HashMap::new(),
            routes: Vec::new(),
        };
        let limits = Limits {
            clock: clock.clone(),
            sampler: Sampler::new(clock.clone()),
            sampling: Mutex::default(),
            changing: Mutex::default(),
            now: RwLock::new(Arc::new(empty)),
        };
        limits.replace(self)?;
        Ok(limits)
    }
}

impl Limits {
    /// All there is now, to look up several things that belong together.
    #[must_use]
    pub fn current(&self) -> Arc<LimitSet> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The limiter of this name, if it has no keys.
    #[must_use]
    pub fn limiter(&self, name: &str) -> Option<AnyLimiter> {
        match self.current().get(name)? {
            Part::Limiter(limiter) => Some(limiter),
            _ => None,
        }
    }

    /// The limiter of this name, if it has keys.
    #[must_use]
    pub fn keyed(&self, name: &str) -> Option<KeyedLimiter> {
        match self.current().get(name)? {
            Part::Keyed(keyed) => Some(keyed),
            _ => None,
        }
    }

    /// The provider of this name.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<Provider> {
        self.current().provider(name).cloned()
    }

    /// The list of middleware of this name, in its order.
    #[must_use]
    pub fn middleware(&self, name: &str) -> Option<Vec<Part>> {
        self.current().middleware(name)
    }

    /// The first route that matches a path.
    #[must_use]
    pub fn route(&self, path: &str) -> Option<Arc<Route>> {
        self.current().route(path).cloned()
    }

    /// What measures memory and processor time, to be told to measure now.
    #[must_use]
    pub const fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// [`replace`](Self::replace) by a file. If anything is wrong with it, nothing changes.
    ///
    /// # Errors
    ///
    /// If it cannot be read, something in it is wrong, or something cannot be measured.
    pub fn replace_file(&self, path: impl AsRef<Path>) -> Result<Changes, ConfigError> {
        self.replace(&Config::from_file(path)?)
    }

    /// Changes everything to `config`.
    ///
    /// Names, providers and routes change at once: whoever looks sees the old ones or the new ones. Limiters that are
    /// described as before are the same, with their state and who waits for them. Those of the same kind with other
    /// limits stay the same too, and carry over what was used; each changes at once, one after the other. What is in a
    /// store stays there, and is read by the new rule; other processes go by theirs until they are changed too. Where that
    /// cannot be done another one takes the place of the old, which is closed, as are those that are gone: who holds one
    /// of these is refused as closed, and should look up the name again.
    ///
    /// # Errors
    ///
    /// If memory or processor time is to be limited and cannot be measured here. Nothing has changed then.
    pub fn replace(&self, config: &Config) -> Result<Changes, ConfigError> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.current();
        let mut changes = Changes::default();
        let mut running = Running::new();
        let mut work = Work::default();
        let stores = Stores::of(config, &old.config, &old.stores)?;
        for definition in &config.plan.definitions {
            let id = definition.id.clone();
            let live = Building {
                config,
                old: &old,
                running: &running,
                stores: &stores,
            };
            let live = self.live(&live, definition, &mut changes, &mut work)?;
            running.insert(id, live);
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
        for definition in &old.config.plan.definitions {
            let gone = old.running.get(&definition.id);
            if let Some(gone) = gone.filter(|_| !set.running.contains_key(&definition.id)) {
                changes.removed.push(definition.id.clone());
                work.closed.push(Arc::clone(gone));
            }
        }
        for change in work.changed {
            change();
        }
        for (old, new) in work.replaced {
            new.charge(&old);
            work.closed.push(old);
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        for gone in work.closed {
            gone.close();
        }
        Ok(changes)
    }

    /// The limiter of a definition: the one that is there, or a new one.
    fn live(
        &self,
        building: &Building<'_>,
        to: &Definition,
        changes: &mut Changes,
        work: &mut Work,
    ) -> Result<Arc<Live>, ConfigError> {
        let Building {
            config,
            old,
            running,
            stores,
        } = *building;
        let before = old.running.get(&to.id).zip(old.config.definition(&to.id));
        if let Some((live, from)) = before {
            let kept = |id: &String| match (old.running.get(id), running.get(id)) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                _ => false,
            };
            let same = from.limiter == to.limiter || same_members(from, to);
            let same_store = config.store_of(to) == old.config.store_of(from);
            if same && same_store && to.members.iter().all(kept) {
                changes.kept.push(to.id.clone());
                return Ok(Arc::clone(live));
            }
            let same_place = config.store_of(to).map(Store::place)
                == old.config.store_of(from).map(Store::place);
            if same_place && live.can_change(from, to) {
                changes.changed.push(to.id.clone());
                let change = live.change(from, to, stores);
                let change = change.map_err(|message| build::wrong(config, to, message))?;
                work.changed.push(change);
                return Ok(Arc::clone(live));
            }
        }
        let definition = before.map_or_else(|| to.clone(), |(live, from)| starting(live, from, to));
        let time = (&self.clock, &self.sampler);
        let new = build::build(config, &definition, running, stores, time)?;
        let new = Arc::new(new);
        match before {
            Some((live, _)) => {
                changes.replaced.push(to.id.clone());
                work.replaced.push((Arc::clone(live), Arc::clone(&new)));
            }
            None => changes.added.push(to.id.clone()),
        }
        Ok(new)
    }

    /// Has somebody measure, if there is anything to be measured.
    fn measure(&self, config: &Config) -> Result<(), ConfigError> {
        let ambient =
            |it: &&Definition| matches!(it.limiter.kind, Kind::Memory { .. } | Kind::Cpu { .. });
        let mut sampling = self.sampling.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = config.plan.definitions.iter().find(ambient) else {
            *sampling = None;
            return Ok(());
        };
        if sampling.is_none() {
            let thread = self.sampler.spawn().map_err(|error| {
                let message = format!("there is no thread to measure with: {error}");
                let problem = plimsoll_scenario::reader::Problem::new(first.place, message);
                ConfigError::problem(
                    &config.file,
                    problem.under_key(&first.id).under_key("limiters"),
                )
            })?;
            *sampling = Some(thread);
        }
        Ok(())
    }
}

/// What a limiter is built from.
struct Building<'a> {
    config: &'a Config,
    /// What was there before.
    old: &'a LimitSet,
    /// What is there already.
    running: &'a Running,
    stores: &'a Stores,
}

/// What is done once nothing can fail any more.
#[derive(Default)]
struct Work {
    changed: Vec<Prepared>,
    replaced: Vec<(Arc<Live>, Arc<Live>)>,
    closed: Vec<Arc<Live>>,
}

/// An `all` whose members are described inside of it, and changed there, is still the same.
fn same_members(from: &Definition, to: &Definition) -> bool {
    let all = |it: &Definition| matches!(it.limiter.kind, Kind::All { .. });
    all(from)
        && all(to)
        && from.members == to.members
        && from.name() == to.name()
        && from.class == to.class
}

/// The definition from which a limiter in the place of another is built: an algorithm goes on from the limit that was
/// found.
fn starting(live: &Live, from: &Definition, to: &Definition) -> Definition {
    let mut definition = to.clone();
    if let (Part::Limiter(limiter), Kind::Adaptive(_), Kind::Adaptive(algorithm)) =
        (&live.part, &from.limiter.kind, &mut definition.limiter.kind)
    {
        let limit = u32::try_from(limiter.snapshot().limit()).unwrap_or(u32::MAX);
        let [min, initial, max] = algorithm.bounds();
        if let (Some(min), Some(max)) = (min, max) {
            let limit = limit.max(min.0).min(max.0);
            *initial = Some(crate::spec::Positive(limit));
        }
    }
    definition
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limits").field(&self.current()).finish()
    }
}
