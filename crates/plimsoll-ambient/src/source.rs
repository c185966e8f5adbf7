//! The traits of sources, and their readings.

use std::time::Duration;

use crate::SourceError;

/// A reading of memory, in bytes. A [`MemorySource`] returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryReading {
    /// The memory in use.
    pub used: u64,
    /// The total memory, if the source knows it. Percentages refer to it.
    pub total: Option<u64>,
}

/// A measurement of the memory in use. Closures are sources: the statistics of an allocator, the size of a buffer pool,
/// the numbers of a test.
///
/// ```
/// use plimsoll::ManualClock;
/// use plimsoll_ambient::{Amount, MemoryLimiter, MemoryReading, Sampler};
///
/// let sampler = Sampler::new(ManualClock::new().clock());
/// let pool = || Ok(MemoryReading { used: 900, total: Some(1000) });
/// let memory = MemoryLimiter::builder(Amount::Percent(95)).source(pool).build(&sampler)?;
/// assert!(memory.check_saturation().is_err()); // the spike leaves a soft limit of 760
/// # Ok::<(), plimsoll_ambient::BuildError>(())
/// ```
pub trait MemorySource: Send {
    /// Measures now. Never called concurrently, and at most once for each sample.
    ///
    /// # Errors
    ///
    /// Returns an error if the measurement fails. The limiter keeps its last answer for a while, see
    /// [`WhenUnknown`](crate::WhenUnknown).
    fn read(&mut self) -> Result<MemoryReading, SourceError>;
}

impl<F> MemorySource for F
where
    F: FnMut() -> Result<MemoryReading, SourceError> + Send,
{
    fn read(&mut self) -> Result<MemoryReading, SourceError> {
        self()
    }
}

/// A reading of processor time. A [`CpuSource`] returns it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpuReading {
    /// The time used so far by all processors together, counted from any fixed moment.
    pub used: Duration,
    /// The number of available processors. A quota may be a fraction.
    pub cores: f64,
}

/// A measurement of the used processor time. Closures are sources.
///
/// ```
/// use plimsoll::ManualClock;
/// use plimsoll_ambient::{CpuLimiter, CpuReading, Sampler};
/// use std::time::Duration;
///
/// let sampler = Sampler::new(ManualClock::new().clock());
/// let idle = || Ok(CpuReading { used: Duration::ZERO, cores: 4.0 });
/// let cpu = CpuLimiter::builder(90).source(idle).build(&sampler)?;
/// assert!(cpu.check_saturation().is_ok());
/// # Ok::<(), plimsoll_ambient::BuildError>(())
/// ```
pub trait CpuSource: Send {
    /// Measures now. Never called concurrently, and at most once for each sample.
    ///
    /// # Errors
    ///
    /// Returns an error if the measurement fails. The limiter keeps its last answer for a while, see
    /// [`WhenUnknown`](crate::WhenUnknown).
    fn read(&mut self) -> Result<CpuReading, SourceError>;
}

impl<F> CpuSource for F
where
    F: FnMut() -> Result<CpuReading, SourceError> + Send,
{
    fn read(&mut self) -> Result<CpuReading, SourceError> {
        self()
    }
}
