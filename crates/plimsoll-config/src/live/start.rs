//! Limits are built for the first time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use plimsoll::Clock;
use plimsoll_ambient::Sampler;

use super::build::Running;
use super::stores::Stores;
use super::{LimitSet, Limits, Saved};
use crate::{Config, ConfigError};

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
        self.build_saved(clock, &[])
    }

    /// [`build`](Self::build), for limits into which what an earlier process [saved](Limits::save) is
    /// [put](Limits::restore) afterwards. Keys can be left out here.
    ///
    /// # Errors
    ///
    /// If memory or processor time is to be limited and cannot be measured here.
    pub fn build_saved(&self, clock: &Clock, saved: &[Saved]) -> Result<Limits, ConfigError> {
        self.build_by(&Sampler::new(clock.clone()), true, saved)
    }

    /// [`build`](Self::build) on the clock of a sampler that the program drives itself. Several configurations, and limiters
    /// beside them, can share one.
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
    /// As [`build`](Self::build).
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
