use std::sync::{Arc, PoisonError, RwLock};

use plimsoll::{Clock, InvalidLimit};

use super::builder::FleetBuilder;
use super::inner::Inner;

/// The replaceable limit that all handles of a fleet share.
pub(super) struct Shared {
    name: String,
    clock: Clock,
    now: RwLock<Arc<Inner>>,
}

impl Shared {
    pub(super) fn new(settings: FleetBuilder) -> Result<Self, InvalidLimit> {
        Ok(Self {
            name: settings.limiter.name().to_owned(),
            clock: settings.limiter.store().clock(),
            now: RwLock::new(Arc::new(Inner::new(settings, Arc::default())?)),
        })
    }

    pub(super) fn replace(&self, settings: FleetBuilder) -> Result<(), InvalidLimit> {
        let inner = Arc::new(Inner::new(settings, self.now().counts())?);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *now, inner);
        drop(now);
        // Returns its borrowed permits, unless a call still uses it.
        drop(old);
        Ok(())
    }

    /// The current limit.
    pub(super) fn now(&self) -> Arc<Inner> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }
}
