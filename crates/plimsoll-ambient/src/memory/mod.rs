//! The memory limiter.

mod builder;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use builder::MemoryLimiterBuilder;

use crate::limiter::ambient_limiter;
use crate::source::{MemoryReading, MemorySource};
use crate::watch::{Gauge, Watch};
use crate::{Amount, Level, SourceError};
use plimsoll::Moment;

/// A limiter that is saturated while too much memory is in use. Clones share their state.
///
/// It has a *hard limit*, the most memory that should ever be in use, and a *spike*, the growth to expect between two
/// samples. Their difference is the *soft limit*: at or above it the limiter is saturated, and work in progress
/// has the spike to finish in. The memory limiter of the OpenTelemetry collector has the same settings, and the same
/// default for the spike, a fifth of the hard limit.
///
/// ```
/// use plimsoll::{Clock, Reason};
/// use plimsoll_ambient::{Amount, MemoryLimiter, ProcessMemory, Sampler};
/// use std::time::Duration;
///
/// # if cfg!(target_os = "linux") {
/// let sampler = Sampler::new(Clock::system());
/// let memory = MemoryLimiter::builder(Amount::Percent(80)) // of the container, or the machine
///     .spike(Amount::mib(16))
///     .check_interval(Duration::from_millis(500))
///     .name("memory")
///     .build(&sampler)?;
/// let _sampling = sampler.spawn()?;
/// println!("{:?}: {:?}", memory.level(), memory.usage());
///
/// let tiny = MemoryLimiter::builder(Amount::Bytes(4096)).source(ProcessMemory::new()?);
/// let denied = tiny.name("tiny").build(&sampler)?.check_saturation().unwrap_err();
/// assert_eq!(denied.reason(), Reason::Saturated);
/// assert_eq!(denied.to_string(), "tiny: saturated");
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is measured
///
/// By default the memory of the [cgroup](crate::CgroupMemory) if it has a limit, otherwise that of the [process](crate::ProcessMemory).
///
/// # When it opens again
///
/// It opens again with the first sample below the soft limit. There is no second, lower threshold: the answer changes
/// at most once in a check interval, so it cannot flap faster than that, and allocators retain some of the memory they
/// free, so a much lower threshold might never be reached again.
#[derive(Clone)]
pub struct MemoryLimiter {
    watch: Arc<Watch>,
    usage: Arc<Mutex<MemoryUsage>>,
}

/// The last sample of a memory limiter, with its limits in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// The memory in use.
    pub used: u64,
    /// The soft limit, at which the limiter is saturated.
    pub soft_limit: u64,
    /// The hard limit: the most that should ever be in use.
    pub hard_limit: u64,
}

impl MemoryUsage {
    fn level(&self) -> Level {
        if self.used >= self.hard_limit {
            Level::Hard
        } else if self.used >= self.soft_limit {
            Level::Soft
        } else {
            Level::Normal
        }
    }
}

impl MemoryLimiter {
    /// Returns the level of memory usage, by the last good sample.
    #[must_use]
    pub fn level(&self) -> Level {
        self.watch.level()
    }

    /// Returns the last good sample. Limits that are percentages were computed from its total.
    #[must_use]
    pub fn usage(&self) -> MemoryUsage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

ambient_limiter!(MemoryLimiter);

impl fmt::Debug for MemoryLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLimiter")
            .field("name", &self.watch.name())
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}

/// The limits as set.
#[derive(Clone, Copy, Debug)]
struct Limits {
    hard: Amount,
    spike: Option<Amount>,
}

impl Limits {
    /// The limits in bytes, with the memory in use. `None` if one is a percentage and the total is not known.
    fn apply(self, reading: MemoryReading) -> Option<MemoryUsage> {
        let hard_limit = self.hard.of(reading.total)?;
        let spike = match self.spike {
            Some(spike) => spike.of(reading.total)?,
            None => hard_limit / 5,
        };
        Some(MemoryUsage {
            used: reading.used,
            soft_limit: hard_limit.saturating_sub(spike),
            hard_limit,
        })
    }
}

struct MemoryGauge {
    source: Box<dyn MemorySource>,
    limits: Limits,
    usage: Arc<Mutex<MemoryUsage>>,
}

impl Gauge for MemoryGauge {
    fn measure(&mut self, _now: Moment) -> Result<Level, SourceError> {
        let reading = self.source.read()?;
        let Some(usage) = self.limits.apply(reading) else {
            return Err(SourceError::new(
                "the source does not say how much memory there is, and a limit is a percentage of it",
            ));
        };
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
        Ok(usage.level())
    }
}
