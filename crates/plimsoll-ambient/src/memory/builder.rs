use std::fmt;
use std::sync::{Arc, Mutex};

use plimsoll::InvalidLimit;

use super::{Limits, MemoryGauge, MemoryLimiter};
use crate::limiter::ambient_settings;
use crate::source::MemorySource;
use crate::watch::{Settings, Watch};
use crate::{Amount, BuildError, Sampler};

/// The settings of a [`MemoryLimiter`]. [`MemoryLimiter::builder`] returns them.
///
/// ```
/// use plimsoll::ManualClock;
/// use plimsoll_ambient::{Amount, MemoryLimiter, MemoryReading, Sampler, WhenUnknown};
///
/// let sampler = Sampler::new(ManualClock::new().clock());
/// let memory = MemoryLimiter::builder(Amount::mib(100))
///     .spike(Amount::mib(10))
///     .source(|| Ok(MemoryReading { used: 0, total: None }))
///     .when_unknown(WhenUnknown::Admit)
///     .build(&sampler)?;
/// assert_eq!(memory.usage().soft_limit, 90 << 20);
/// # Ok::<(), plimsoll_ambient::BuildError>(())
/// ```
#[must_use]
pub struct MemoryLimiterBuilder {
    limits: Limits,
    source: Option<Box<dyn MemorySource>>,
    settings: Settings,
}

ambient_settings!(MemoryLimiterBuilder);

impl MemoryLimiter {
    /// Returns a builder of a limiter with this hard limit.
    pub fn builder(hard_limit: Amount) -> MemoryLimiterBuilder {
        MemoryLimiterBuilder {
            limits: Limits {
                hard: hard_limit,
                spike: None,
            },
            source: None,
            settings: Settings::default(),
        }
    }
}

impl MemoryLimiterBuilder {
    /// Sets the difference between the hard limit and the soft limit: the growth to expect between two samples.
    /// Default: a fifth of the hard limit. A percentage refers to the total memory, not to the hard limit.
    pub fn spike(mut self, spike: Amount) -> Self {
        self.limits.spike = Some(spike);
        self
    }

    /// Sets the source. Default: the cgroup if it has a limit, otherwise the process.
    pub fn source(mut self, source: impl MemorySource + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Builds the limiter, takes its first sample and adds it to `sampler`.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`](BuildError::Invalid): a limit of 0, a percentage above 100, a spike as large as the hard
    /// limit, a check interval of 0, or percentages with a source that does not know the total.
    /// [`Source`](BuildError::Source): the first measurement failed.
    pub fn build(self, sampler: &Sampler) -> Result<MemoryLimiter, BuildError> {
        self.settings.check()?;
        let limits = self.limits;
        limits.hard.check("hard_limit", 1)?;
        if let Some(spike) = limits.spike {
            spike.check("spike", 0)?;
        }
        let mut source = match self.source {
            Some(source) => source,
            None => sampler.memory()?,
        };
        let now = sampler.clock().precise_now();
        let Some(usage) = limits.apply(source.read()?) else {
            let (option, amount) = match (limits.hard, limits.spike) {
                (Amount::Bytes(_), Some(spike)) => ("spike", spike),
                (hard, _) => ("hard_limit", hard),
            };
            let rule = "bytes, because the source does not say how much memory there is";
            return Err(InvalidLimit::new(option, amount, rule).into());
        };
        if usage.hard_limit == 0 {
            let rule = "at least 1 byte of what there is";
            return Err(InvalidLimit::new("hard_limit", limits.hard, rule).into());
        }
        if usage.soft_limit == 0 {
            let spike = limits.spike.unwrap_or(Amount::Bytes(0));
            return Err(InvalidLimit::new("spike", spike, "less than the hard limit").into());
        }
        let first = (now, usage.level());
        let usage = Arc::new(Mutex::new(usage));
        let gauge = MemoryGauge {
            source,
            limits,
            usage: Arc::clone(&usage),
        };
        let clock = sampler.clock().clone();
        let watch = Watch::new(&self.settings, clock, Box::new(gauge), first);
        sampler.register(&watch);
        Ok(MemoryLimiter { watch, usage })
    }
}

impl fmt::Debug for MemoryLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLimiterBuilder")
            .field("limits", &self.limits)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
