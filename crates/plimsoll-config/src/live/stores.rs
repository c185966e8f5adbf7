//! Limiters that are kept in stores, and stores that are kept while files change.

mod keys;
mod one;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll::Snapshot;
use plimsoll_redis::{Fleet, Store};
use plimsoll_spec::{Place, Problem, label};

use super::change::{Change, Prepared};
use super::gates::Built;
use super::generation::Inner;
use crate::check::Definition;
use crate::{Config, ConfigError, redis};
use keys::FleetKeys;
use one::FleetOne;

/// The stores of a file, by name. Limiters of one store share its connection.
#[derive(Clone, Default)]
pub(crate) struct Stores(HashMap<String, Store>);

impl Stores {
    /// The stores of `config`. One that is described as `before` is the same.
    pub(super) fn of(config: &Config, before: &Config, stores: &Self) -> Result<Self, ConfigError> {
        let mut opened = HashMap::new();
        for (name, spec) in config.spec.stores.iter() {
            let known = stores.0.get(name);
            let known = known.filter(|_| before.spec.stores.get(name) == Some(spec));
            let store = match known {
                Some(store) => store.clone(),
                None => redis::open(spec).map_err(|message| {
                    let problem = Problem::new(Place::START, message);
                    let problem = problem.under_key(&label(name)).under_key("stores");
                    ConfigError::problem(&config.file, problem)
                })?,
            };
            opened.insert(name.to_owned(), store);
        }
        Ok(Self(opened))
    }

    fn get(&self, definition: &Definition) -> Option<&Store> {
        let name = definition.limiter.common.store.as_ref()?;
        self.0.get(&name.0)
    }

    /// Builds a limiter in its store.
    pub(super) fn build(&self, definition: &Definition) -> Result<Built, String> {
        let name = definition.name();
        let fleet = Arc::new(Current::new(self.fleet(definition)?));
        let change = Arc::new(InStore {
            current: Arc::clone(&fleet),
            name: name.to_owned(),
            kind: definition.limiter.kind.word(),
            keyed: definition.is_keyed(),
        });
        let inner = if definition.is_keyed() {
            Inner::Keys(Arc::new(FleetKeys::new(name, fleet)))
        } else {
            Inner::Remote(Arc::new(FleetOne::new(name, fleet)))
        };
        Ok(Built { inner, change })
    }

    fn fleet(&self, definition: &Definition) -> Result<Fleet, String> {
        let store = self.get(definition).ok_or("there is no such store")?;
        let fleet = redis::fleet(&definition.limiter, definition.name(), store);
        fleet.map_err(|spec| spec.invalid().to_string())
    }
}

/// A limit in a store whose rule may change: whoever holds it goes by the new one from then on.
struct Current(RwLock<Now>);

struct Now {
    fleet: Fleet,
    /// What was granted and refused by those before it.
    before: (u64, u64),
}

impl Current {
    const fn new(fleet: Fleet) -> Self {
        let before = (0, 0);
        Self(RwLock::new(Now { fleet, before }))
    }

    fn get(&self) -> Fleet {
        let now = self.0.read().unwrap_or_else(PoisonError::into_inner);
        now.fleet.clone()
    }

    /// What was borrowed by the old one goes back when the last who asks it has an answer.
    fn set(&self, fleet: Fleet) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let totals = now.fleet.totals();
        now.before.0 += totals.granted;
        now.before.1 += totals.denied;
        now.fleet = fleet;
    }

    /// The limit, and what was granted and refused in this process, by all rules.
    fn snapshot(&self) -> Snapshot {
        let now = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (limit, totals) = (now.fleet.limiter().limit(), now.fleet.totals());
        let (granted, denied) = now.before;
        Snapshot::of(u64::from(limit), u64::from(limit))
            .with_totals(granted + totals.granted, denied + totals.denied)
    }
}

/// Changes a limit in a store: another rule for the same names, so that what is kept stays.
struct InStore {
    current: Arc<Current>,
    name: String,
    kind: &'static str,
    keyed: bool,
}

impl Change for InStore {
    /// By its name and its kind the store finds it again.
    fn is_possible(&self, to: &Definition) -> bool {
        let kind = to.limiter.kind.word();
        let fits = (to.name(), kind, to.is_keyed()) == (&self.name, self.kind, self.keyed);
        fits && to.limiter.common.store.is_some()
    }

    fn prepare(&self, to: &Definition, stores: &Stores) -> Result<Option<Prepared>, String> {
        let (current, fleet) = (Arc::clone(&self.current), stores.fleet(to)?);
        Ok(Some(Box::new(move || current.set(fleet))))
    }
}
