//! Limiters in stores, and stores that are kept across reloads.

mod keys;

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::Clock;
use plimsoll_redis::{Fleet, FleetBuilder, Store, StoreStats};
use plimsoll_spec::{Place, Problem, label};

use super::gates::Built;
use super::in_place::{ChangeInPlace, Prepared};
use super::version::Inner;
use crate::check::Definition;
use crate::{Config, ConfigError, redis};
use keys::FleetKeys;

/// The stores of a file, by name. Limiters of one store share its connection.
#[derive(Clone, Default)]
pub(crate) struct Stores(HashMap<String, Store>);

impl Stores {
    /// The stores of `config`. A store with the same description as in `before` is kept. Stores use the clock of their server, unless
    /// `clock` is a manual clock.
    pub(super) fn of(
        config: &Config,
        before: &Config,
        stores: &Self,
        clock: &Clock,
    ) -> Result<Self, ConfigError> {
        let mut opened = HashMap::new();
        for (name, spec) in config.spec.stores.iter() {
            let known = stores.0.get(name);
            let known = known.filter(|_| before.spec.stores.get(name) == Some(spec));
            let store = match known {
                Some(store) => store.clone(),
                None => redis::open(spec, clock).map_err(|message| {
                    let problem = Problem::new(Place::START, message);
                    let problem = problem.under_key(&label(name)).under_key("stores");
                    config.error(problem)
                })?,
            };
            opened.insert(name.to_owned(), store);
        }
        Ok(Self(opened))
    }

    /// The statistics of each store, sorted by name.
    pub(super) fn stats(&self) -> Vec<(String, StoreStats)> {
        let stores = self.0.iter();
        let mut stats: Vec<_> = stores
            .map(|(name, it)| (name.clone(), it.stats()))
            .collect();
        stats.sort_by(|(one, _), (other, _)| one.cmp(other));
        stats
    }

    fn get(&self, definition: &Definition) -> Option<&Store> {
        let name = definition.limiter.common.store.as_ref()?;
        self.0.get(&name.0)
    }

    /// Builds a limiter in its store.
    pub(super) fn build(&self, definition: &Definition) -> Result<Built, String> {
        let name = definition.name_in_store();
        let fleet = self.fleet(definition)?.build();
        let fleet = fleet.map_err(|invalid| invalid.to_string())?;
        // The key of a limit without keys is its name, so that limits are spread over the nodes of a cluster.
        let inner = if definition.is_keyed() {
            Inner::Keys(Arc::new(FleetKeys::new(name, fleet.clone())))
        } else {
            Inner::Remote(Arc::new(fleet.key(name)))
        };
        let change = Arc::new(InStore {
            fleet,
            name: name.to_owned(),
            kind: definition.limiter.kind.word(),
            keyed: definition.is_keyed(),
        });
        Ok(Built { inner, change })
    }

    fn fleet(&self, definition: &Definition) -> Result<FleetBuilder, String> {
        let store = self.get(definition).ok_or("there is no such store")?;
        let fleet = redis::fleet(&definition.limiter, definition.name_in_store(), store);
        fleet.map_err(|spec| spec.invalid().to_string())
    }
}

/// Changes a limit in a store: another rule for the same entries, which stay.
struct InStore {
    fleet: Fleet,
    name: String,
    kind: &'static str,
    keyed: bool,
}

impl ChangeInPlace for InStore {
    /// Possible if the name and the kind, which identify the entries of the store, stay the same.
    fn is_possible(&self, to: &Definition) -> bool {
        let kind = to.limiter.kind.word();
        let fits = (to.name_in_store(), kind, to.is_keyed()) == (&self.name, self.kind, self.keyed);
        fits && to.limiter.common.store.is_some()
    }

    fn fleet_key(&self, key: Option<&str>) -> Option<plimsoll_redis::FleetKey> {
        Some(self.fleet.key(key.unwrap_or(&self.name)))
    }

    fn prepare(&self, to: &Definition, stores: &Stores) -> Result<Option<Prepared>, String> {
        let (fleet, with) = (self.fleet.clone(), stores.fleet(to)?);
        // It can be built, so it can replace.
        Ok(Some(Box::new(move || drop(fleet.replace(with)))))
    }
}
