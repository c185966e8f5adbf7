//! The limiters, providers and routes of one configuration.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_kinds::{AnyLimiter, KeyedLimiter, Provider, Rate};

use super::build::Running;
use super::stores::Stores;
use crate::Config;
use crate::route::Pattern;

/// A handle from a configuration: a limiter, a limiter with keys, or a provider. [`LimitSet::get`] returns one.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_config::{Config, Format, Part};
///
/// let text = "limits: { disk: { concurrency: 4 }, user: { rate: 1/s, key: client } }";
/// let set = Config::from_str("limits.yaml", text, Format::Yaml)?.build(&Clock::system())?.current();
/// assert!(matches!(set.get("disk"), Some(Part::Limiter(_))));
/// assert!(matches!(set.get("user"), Some(Part::Keyed(_))));
/// assert!(set.get("mail").is_none());
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Part {
    /// A limiter without keys.
    Limiter(AnyLimiter),
    /// A limiter with a state for each key.
    Keyed(KeyedLimiter),
    /// Several limiters, each with the weight that it limits.
    Provider(Provider),
}

/// A route that matches by path alone, with its limiters and providers.
#[derive(Debug)]
pub struct Route {
    pub(super) patterns: Vec<Pattern>,
    pub(super) parts: Vec<Part>,
    pub(super) bytes: Option<Rate>,
    pub(super) holds: bool,
}

impl Route {
    /// Returns the first pattern, as the file has it.
    ///
    /// A path is split at its slashes, and segments are compared as they are: case counts, nothing is decoded, and a trailing slash
    /// makes a difference. `*` matches one segment that is not empty, `**` at the end any number of segments: `/a/**` matches
    /// `/a`, `/a/` and `/a/b/c`.
    #[must_use]
    pub fn pattern(&self) -> &str {
        self.patterns.first().map_or("", Pattern::as_str)
    }

    /// Returns its limiters and providers, in the order in which they are asked.
    #[must_use]
    pub fn middleware(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the limiter of body bytes, if the route has one.
    #[must_use]
    pub const fn bytes(&self) -> Option<&Rate> {
        self.bytes.as_ref()
    }

    /// Returns whether permits are held until the work is done. If not, it has only rate and basic limiters.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holds
    }
}

/// The limiters, providers and routes of one configuration. The set never changes; its limiters may.
pub struct LimitSet {
    pub(super) config: Config,
    pub(super) running: Running,
    pub(super) stores: Stores,
    pub(super) providers: HashMap<String, Provider>,
    pub(super) routes: Vec<Arc<Route>>,
}

impl LimitSet {
    /// Returns the limiter or the provider with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Part> {
        let limiter = self.running.get(name).map(|live| live.part.clone());
        limiter.or_else(|| {
            self.provider(name)
                .map(|provider| Part::Provider(provider.clone()))
        })
    }

    /// Returns the store entry of a limiter in a store, for a key if it has keys.
    #[cfg(feature = "redis")]
    #[doc(hidden)]
    #[must_use]
    pub fn fleet_key(&self, id: &str, key: &str) -> Option<plimsoll_redis::FleetKey> {
        let live = self.running.get(id)?;
        let key = live.definition.is_keyed().then_some(key);
        live.change.fleet_key(key)
    }

    /// Returns the statistics of each store, by its name in the file.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn stores(&self) -> Vec<(String, plimsoll_redis::StoreStats)> {
        self.stores.stats()
    }

    /// Returns the provider with this name.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.get(name)
    }

    /// Returns the list of middleware with this name, in its order. Lists in it are expanded.
    #[must_use]
    pub fn middleware(&self, name: &str) -> Option<Vec<Part>> {
        let names = self.config.plan.lists.get(name)?;
        Some(names.iter().filter_map(|name| self.get(name)).collect())
    }

    /// Returns the first route that matches a path. Routes with methods, hosts or header fields are left out, because a
    /// path alone cannot match them.
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "limits: { disk: { concurrency: 4 } }\nroutes: [{ match: /files/**, limits: [disk] }]";
    /// let set = Config::from_str("limits.yaml", text, Format::Yaml)?.build(&Clock::system())?.current();
    /// assert_eq!(set.route("/files/7").unwrap().pattern(), "/files/**");
    /// assert!(set.route("/about").is_none());
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn route(&self, path: &str) -> Option<&Arc<Route>> {
        let mut routes = self.routes.iter();
        let matches = |pattern: &Pattern| pattern.matches(path);
        routes.find(|route| route.patterns.iter().any(matches))
    }

    /// Returns the configuration that the set was built from.
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
