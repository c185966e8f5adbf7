//! What one configuration came to.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_kinds::{AnyLimiter, KeyedLimiter, Provider, Rate};

use super::build::Running;
use super::stores::Stores;
use crate::Config;
use crate::route::Pattern;

/// Something that hangs at a place: a limiter, one with keys, or a provider.
#[derive(Clone, Debug)]
pub enum Part {
    /// A limiter without keys.
    Limiter(AnyLimiter),
    /// A limiter with a state for each key.
    Keyed(KeyedLimiter),
    /// Limiters by what they count.
    Provider(Provider),
}

/// A path, and what hangs there.
#[derive(Debug)]
pub struct Route {
    pub(super) patterns: Vec<Pattern>,
    pub(super) parts: Vec<Part>,
    pub(super) bytes: Option<Rate>,
    pub(super) holds: bool,
}

impl Route {
    /// The pattern, the first if there are several, as it stands in the file.
    ///
    /// A path is divided at its slashes, and segments are compared as they are: capitals count, nothing is decoded,
    /// and a slash at the end makes a difference. `*` is one segment that is not empty, `**` at the end any
    /// number of segments: `/a/**` matches `/a`, `/a/` and `/a/b/c`.
    #[must_use]
    pub fn pattern(&self) -> &str {
        self.patterns.first().map_or("", Pattern::as_str)
    }

    /// What hangs there, in the order in which it is asked.
    #[must_use]
    pub fn middleware(&self) -> &[Part] {
        &self.parts
    }

    /// What limits the bytes of bodies.
    #[must_use]
    pub const fn bytes(&self) -> Option<&Rate> {
        self.bytes.as_ref()
    }

    /// Whether permits are held there. Where they are not, only rate and basic limiters hang.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holds
    }
}

/// All that one configuration came to. It never changes; its limiters may.
pub struct LimitSet {
    pub(super) config: Config,
    pub(super) running: Running,
    pub(super) stores: Stores,
    pub(super) providers: HashMap<String, Provider>,
    pub(super) routes: Vec<Arc<Route>>,
}

impl LimitSet {
    /// The limiter or the provider of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Part> {
        let limiter = self.running.get(name).map(|live| live.part.clone());
        limiter.or_else(|| {
            self.provider(name)
                .map(|provider| Part::Provider(provider.clone()))
        })
    }

    /// What is asked of a store for a limiter that is kept in one, and a key if it has keys.
    #[cfg(feature = "redis")]
    #[doc(hidden)]
    #[must_use]
    pub fn fleet_key(&self, id: &str, key: &str) -> Option<plimsoll_redis::FleetKey> {
        let live = self.running.get(id)?;
        let key = live.definition.is_keyed().then_some(key);
        live.change.fleet_key(key)
    }

    /// What happened to each store so far, by its name in the file.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn stores(&self) -> Vec<(String, plimsoll_redis::StoreStats)> {
        self.stores.stats()
    }

    /// The provider of this name.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.get(name)
    }

    /// The list of middleware of this name, in its order, with what other lists in it come to.
    #[must_use]
    pub fn middleware(&self, name: &str) -> Option<Vec<Part>> {
        let names = self.config.plan.lists.get(name)?;
        Some(names.iter().filter_map(|name| self.get(name)).collect())
    }

    /// The first route that matches a path. Routes that ask for a method, a host or a header field are left out: a path does
    /// not say whether they match.
    #[must_use]
    pub fn route(&self, path: &str) -> Option<&Arc<Route>> {
        let mut routes = self.routes.iter();
        let matches = |pattern: &Pattern| pattern.matches(path);
        routes.find(|route| route.patterns.iter().any(matches))
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.config.limiters().collect();
        f.debug_struct("LimitSet")
            .field("limiters", &names)
            .field("routes", &self.routes.len())
            .finish_non_exhaustive()
    }
}
