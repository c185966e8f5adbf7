//! Envoy's rate-limit service, v3: by the limits of our own file, or by the configuration of the reference server.

#[cfg(test)]
mod cases;
mod files;
mod generate;
mod glob;
mod http;
mod json;
mod load;
mod metadata;
mod native;
pub(crate) mod proto;
mod read;
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
use tonic::Status;

pub(crate) use http::{admin_router, router as http_router};
pub(crate) use service::{SHOULD_RATE_LIMIT, answer, router};
pub(crate) use watch::watch;

use files::Watch;
use proto::UNITS;
use slots::Slots;
use stats::{Stats, add};
use tree::Tree;

use crate::state::State;

/// How many different windows may come with requests.
const MOST_WINDOWS: usize = 64;

/// How a configuration of the reference server is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnvoySettings {
    /// The directories with its files.
    pub config: Vec<PathBuf>,
    /// Whether several files may describe one domain (`MERGE_DOMAIN_CONFIG` there).
    pub merge: bool,
    /// Whether nothing is refused, only counted (`SHADOW_MODE` there).
    pub shadow: bool,
    /// Whether all limits are quotas, of which one is enough (`QUOTA_MODE` there).
    pub quota: bool,
    /// Whether its paths over HTTP, its statistics and its header fields are there too.
    pub compat: bool,
    /// The address of a Redis that a fleet counts in; every process for itself, unless set.
    pub store: Option<String>,
    /// How long a slot is held at most that a descriptor took, and did not give back with negative hits: of limits of our
    /// own file on what is under way.
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

/// The rate-limit service, and what it has in common with other ports.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) state: Arc<State>,
    envoy: Arc<Envoy>,
}

impl Front {
    pub(crate) fn new(state: &Arc<State>, envoy: &Arc<Envoy>) -> Self {
        Self {
            state: Arc::clone(state),
            envoy: Arc::clone(envoy),
        }
    }
}

/// The rate-limit service.
#[derive(Debug)]
pub(crate) struct Envoy {
    settings: EnvoySettings,
    clock: Clock,
    tree: RwLock<Arc<Tree>>,
    limits: Limits,
    /// The windows that came with requests, in seconds, and all units.
    windows: RwLock<BTreeSet<u64>>,
    /// Locked while limits are replaced.
    replacing: Mutex<()>,
    stats: Stats,
    slots: Slots,
    watch: Mutex<Watch>,
}

impl Envoy {
    /// Reads the configuration.
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

    /// The limits of the configuration, as the engine has them.
    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) const fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) const fn is_compat(&self) -> bool {
        self.settings.compat
    }

    /// Reads the configuration again if it has changed, or in any case. What was counted stays counted. `None` if there is
    /// nothing new.
    ///
    /// # Errors
    ///
    /// What is wrong with it. Then everything stays as it was.
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
        *self.tree.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tree);
        Ok(domains)
    }

    /// Puts limits in the place of those there are.
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

    /// Whether a domain is one of the configuration.
    fn has(&self, domain: &str) -> bool {
        self.tree().has(domain)
    }

    /// Time since 1970.
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.precise_now().as_nanos())
    }

    /// Makes sure that there are limits for the windows that came with requests to a process before this one: `limits` are its.
    pub(crate) fn remember(&self, limits: &[String]) {
        let windows = limits
            .iter()
            .filter_map(|limit| generate::own_window(limit));
        for window in windows {
            if let Err(status) = self.know(window) {
                tracing::error!(window, "{}", status.message());
            }
        }
    }

    /// Makes sure that there is a limit with this window, for descriptors that bring their own.
    fn know(&self, window: u64) -> Result<(), Status> {
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
