//! Envoy's rate limit service, v3. It enforces the limits of the file, or of a configuration of the reference server.

#[cfg(test)]
mod cases;
mod fields;
mod files;
mod generate;
mod glob;
mod http;
mod json;
mod load;
mod metadata;
mod native;
pub(crate) mod proto;
mod reference;
mod service;
mod slots;
mod stats;
mod status;
mod targets;
mod tree;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use plimsoll::Clock;
use plimsoll_config::ConfigError;
use plimsoll_engine::Limits;
use tokio::sync::Notify;
use tonic::Status;

pub(crate) use http::{admin_router, router as http_router};
pub(crate) use service::{SHOULD_RATE_LIMIT, answer, router};
pub(crate) use watch::reload_on_change;

use files::Watch;
use proto::UNITS;
use slots::Slots;
use stats::{Stats, add};
use tree::Tree;

use crate::state::State;

/// Maximum number of different windows of overrides.
const MOST_WINDOWS: usize = 64;

/// The settings for Envoy's rate limit service, most of them for a configuration of the
/// [reference server](https://github.com/envoyproxy/ratelimit).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnvoySettings {
    /// The directories with the configuration files. If empty, descriptors are matched by the routes of the file of limits.
    pub config: Vec<PathBuf>,
    /// Whether several files may describe one domain (`MERGE_DOMAIN_CONFIG` of the reference server).
    pub merge: bool,
    /// Whether all limits are in shadow mode: requests are counted and never refused (`SHADOW_MODE`).
    pub shadow: bool,
    /// Whether all limits are quotas: a request is admitted if one of its limits grants (`QUOTA_MODE`).
    pub quota: bool,
    /// Whether the server also provides the HTTP paths, statistics and header fields of the reference server.
    pub compat: bool,
    /// The address of a Redis in which the servers of a fleet count together. If `None`, each process counts for itself.
    pub store: Option<String>,
    /// The time after which a slot of a concurrency limit of the file is freed that a descriptor has not returned with negative hits.
    pub lease: Duration,
}

impl Default for EnvoySettings {
    fn default() -> Self {
        Self {
            config: Vec::new(),
            merge: false,
            shadow: false,
            quota: false,
            compat: false,
            store: None,
            lease: Duration::from_secs(300),
        }
    }
}

/// The rate limit service, with the state that all ports share.
#[derive(Clone, Debug)]
pub(crate) struct RateLimitService {
    pub(crate) state: Arc<State>,
    envoy: Arc<Envoy>,
}

impl RateLimitService {
    pub(crate) fn new(state: &Arc<State>, envoy: &Arc<Envoy>) -> Self {
        Self {
            state: Arc::clone(state),
            envoy: Arc::clone(envoy),
        }
    }
}

/// The configuration of the reference server: its tree, its limits, its statistics, and the slots that descriptors hold.
#[derive(Debug)]
pub(crate) struct Envoy {
    settings: EnvoySettings,
    clock: Clock,
    tree: RwLock<Arc<Tree>>,
    /// Notified when the tree has been replaced.
    tree_replaced: Notify,
    limits: Limits,
    /// The windows for which there are override limits, in seconds: all units, and those of requests so far.
    windows: RwLock<BTreeSet<u64>>,
    /// Serializes replacements of limits.
    replacing: Mutex<()>,
    stats: Stats,
    slots: Slots,
    watch: Mutex<Watch>,
}

impl Envoy {
    /// Loads the configuration.
    pub(crate) fn new(settings: EnvoySettings, clock: &Clock) -> Result<Self, ConfigError> {
        let read = files::read(&settings.config);
        let watch = Watch::new(&read);
        let tree = load::load(&read?, settings.merge)?;
        let windows = UNITS.iter().map(|(_, unit)| unit.seconds()).collect();
        let config = generate::config(&tree, &windows, settings.shadow, settings.store.as_deref())?;
        let envoy = Self {
            limits: Limits::new(&config, clock)?,
            clock: clock.clone(),
            tree: RwLock::new(Arc::new(tree)),
            tree_replaced: Notify::new(),
            windows: RwLock::new(windows),
            replacing: Mutex::default(),
            stats: Stats::default(),
            slots: Slots::default(),
            watch: Mutex::new(watch),
            settings,
        };
        add(&envoy.stats.config_load_success, 1);
        Ok(envoy)
    }

    /// The engine limits of the configuration.
    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) const fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) const fn is_compat(&self) -> bool {
        self.settings.compat
    }

    /// Reloads the configuration if it has changed or if `in_any_case` is set. Counters are kept. `None` if nothing changed,
    /// otherwise the number of domains.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid. Then the old one stays in place.
    pub(crate) fn reload(&self, in_any_case: bool) -> Option<Result<usize, ConfigError>> {
        if self.settings.config.is_empty() {
            return None;
        }
        let read = files::read(&self.settings.config);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if in_any_case {
            *watch = Watch::new(&read);
        } else if !watch.has_changed(&read) {
            return None;
        }
        let replaced = read.and_then(|files| self.replace(&files));
        let counted = match &replaced {
            Ok(_) => &self.stats.config_load_success,
            Err(_) => &self.stats.config_load_error,
        };
        add(counted, 1);
        Some(replaced)
    }

    fn replace(&self, files: &[(PathBuf, String)]) -> Result<usize, ConfigError> {
        let tree = load::load(files, self.settings.merge)?;
        let _one = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.put(&tree, &self.windows())?;
        let domains = tree.domain_count();
        self.set_tree(tree);
        Ok(domains)
    }

    fn set_tree(&self, tree: Tree) {
        *self.tree.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tree);
        self.tree_replaced.notify_waiters();
    }

    /// Replaces the engine limits.
    fn put(&self, tree: &Tree, windows: &BTreeSet<u64>) -> Result<(), ConfigError> {
        let EnvoySettings { shadow, store, .. } = &self.settings;
        let config = generate::config(tree, windows, *shadow, store.as_deref())?;
        self.limits.replace(&config).map(drop)
    }

    fn windows(&self) -> RwLockReadGuard<'_, BTreeSet<u64>> {
        self.windows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree(&self) -> Arc<Tree> {
        Arc::clone(&self.tree.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the configuration has this domain.
    fn has(&self, domain: &str) -> bool {
        self.tree().has(domain)
    }

    /// The time since 1970.
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.precise_now().as_nanos())
    }

    /// Adds override limits for the windows that an earlier process had. `limits` are the names of its limits.
    pub(crate) fn add_saved_windows(&self, limits: &[String]) {
        let windows = limits
            .iter()
            .filter_map(|limit| generate::override_window(limit));
        for window in windows {
            if let Err(status) = self.add_window(window) {
                tracing::error!(window, "{}", status.message());
            }
        }
    }

    /// Adds the override limit for this window if it does not exist.
    fn add_window(&self, window: u64) -> Result<(), Status> {
        if self.windows().contains(&window) {
            return Ok(());
        }
        let replacing = self.replacing.lock();
        let _one = replacing.unwrap_or_else(PoisonError::into_inner);
        let mut windows = self.windows().clone();
        if !windows.insert(window) {
            return Ok(());
        }
        if windows.len() > MOST_WINDOWS {
            return Err(Status::resource_exhausted(format!(
                "more than {MOST_WINDOWS} different windows came with requests: expected fewer, or limits in the configuration"
            )));
        }
        let put = self.put(&self.tree(), &windows);
        put.map_err(|error| Status::internal(error.to_string()))?;
        *self.windows.write().unwrap_or_else(PoisonError::into_inner) = windows;
        Ok(())
    }
}
