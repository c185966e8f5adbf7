//! Building the limits of a configuration.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use plimsoll::Clock;
use plimsoll_ambient::Sampler;

use super::build::Running;
use super::stores::Stores;
use super::{LimitSet, Limits, Saved};
use crate::{Config, ConfigError};

impl Config {
    /// Builds the limiters, on `clock`. Adaptive limits time work, and need [`Clock::precise`]. Limits in a store use the clock of
    /// the store.
    ///
    /// If memory or processor time is limited, a thread measures it as long as the limits exist. The connection to a
    /// store is made when one of its limiters is first asked.
    ///
    /// # Errors
    ///
    /// Returns an error if memory or processor time is limited and cannot be measured.
    pub fn build(&self, clock: &Clock) -> Result<Limits, ConfigError> {
        self.build_saved(clock, &[])
    }

    /// Like [`build`](Self::build), for limits that continue from the [saved](Limits::save) state of an earlier
    /// process. [`Limits::restore`] must follow. Records of keys may be left out of `saved` here.
    ///
    /// # Errors
    ///
    /// Returns an error if memory or processor time is limited and cannot be measured.
    pub fn build_saved(&self, clock: &Clock, saved: &[Saved]) -> Result<Limits, ConfigError> {
        self.build_by(&Sampler::new(clock.clone()), true, saved)
    }

    /// Like [`build`](Self::build), with a sampler that the program drives itself, on the clock of the sampler. Several
    /// configurations and other limiters can share one sampler.
    ///
    /// ```
    /// use plimsoll::{Clock, Reason};
    /// use plimsoll_ambient::{MemoryReading, Sampler};
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "limiters: { heap: { kind: memory, hard_limit: 1000B } }";
    /// let sampler = Sampler::new(Clock::system());
    /// sampler.memory_source(|| Ok(MemoryReading { used: 900, total: None }));
    /// let limits = Config::from_str("limits.yaml", text, Format::Yaml)?.build_sampled(&sampler)?;
    /// let denied = limits.limiter("heap").unwrap().try_acquire(1.into()).unwrap_err();
    /// assert_eq!(denied.reason(), Reason::Saturated);
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](Self::build).
    pub fn build_sampled(&self, sampler: &Sampler) -> Result<Limits, ConfigError> {
        self.build_by(sampler, false, &[])
    }

    fn build_by(
        &self,
        sampler: &Sampler,
        drives: bool,
        saved: &[Saved],
    ) -> Result<Limits, ConfigError> {
        let empty = LimitSet {
            config: self.clone(),
            running: Running::new(),
            stores: Stores::default(),
            providers: HashMap::new(),
            routes: Vec::new(),
        };
        let limits = Limits {
            clock: sampler.clock().clone(),
            sampler: sampler.clone(),
            drives,
            sampling: Mutex::default(),
            removed: Mutex::default(),
            now: RwLock::new(Arc::new(empty)),
        };
        limits.replace_from(self, saved)?;
        Ok(limits)
    }
}
