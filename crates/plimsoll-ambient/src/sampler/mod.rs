//! The schedule of samples, and the thread that takes them.

mod guarded;
mod run;
mod shared;
mod thread;

use std::fmt;
use std::sync::Arc;

use plimsoll::Clock;

pub use run::Run;
pub use thread::SamplerThread;

use crate::SourceError;
use crate::process::{detect_cpu, detect_memory};
use crate::source::{CpuSource, MemorySource};
use crate::watch::Watch;
use shared::Shared;

/// A sampler, which measures for all limiters that were built with it. Clones share its limiters.
///
/// A sampler starts no thread by itself. Drive it in one of three ways:
///
/// - [`spawn`](Self::spawn): one thread for all limiters, until its guard is dropped.
/// - [`run`](Self::run): a future for a task of any runtime.
/// - [`sample`](Self::sample): on the calling thread, now.
///
/// The first two wake up at the shortest check interval of all limiters. Each wake-up measures the limiters that
/// are due before the next one, so limiters with longer intervals need no wake-ups of their own.
///
/// ```
/// use plimsoll::ManualClock;
/// use plimsoll_ambient::{Amount, MemoryLimiter, MemoryReading, Sampler};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let used = Arc::new(AtomicU64::new(0));
/// let gauge = Arc::clone(&used);
///
/// let sampler = Sampler::new(ManualClock::new().clock());
/// let memory = MemoryLimiter::builder(Amount::Bytes(1000))
///     .source(move || Ok(MemoryReading { used: gauge.load(Ordering::Relaxed), total: None }))
///     .build(&sampler)?;
///
/// used.store(900, Ordering::Relaxed);
/// assert!(memory.check_saturation().is_ok()); // not sampled yet
/// sampler.sample()?;
/// assert!(memory.check_saturation().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Sampler {
    shared: Arc<Shared>,
}

impl Sampler {
    /// Creates a sampler. Its limiters use `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            shared: Arc::new(Shared::new(clock)),
        }
    }

    /// Sets the memory source of limiters that are built from now on and have no source of their own: the statistics of
    /// an allocator, or the numbers of a test. Each of them has its own clone.
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_ambient::{Amount, MemoryLimiter, MemoryReading, Sampler};
    ///
    /// let sampler = Sampler::new(Clock::system());
    /// sampler.memory_source(|| Ok(MemoryReading { used: 900, total: Some(1000) }));
    /// let memory = MemoryLimiter::builder(Amount::Percent(50)).build(&sampler)?;
    /// assert!(memory.check_saturation().is_err());
    /// # Ok::<(), plimsoll_ambient::BuildError>(())
    /// ```
    pub fn memory_source(&self, source: impl MemorySource + Clone + Sync + 'static) {
        let make = move || -> Box<dyn MemorySource> { Box::new(source.clone()) };
        self.shared.sources().memory = Some(Arc::new(make));
    }

    /// Like [`memory_source`](Self::memory_source), for processor time.
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_ambient::{CpuLimiter, CpuReading, Sampler};
    /// use std::time::Duration;
    ///
    /// let sampler = Sampler::new(Clock::system());
    /// sampler.cpu_source(|| Ok(CpuReading { used: Duration::ZERO, cores: 1.0 }));
    /// let cpu = CpuLimiter::builder(80).build(&sampler)?;
    /// assert!(cpu.check_saturation().is_ok());
    /// # Ok::<(), plimsoll_ambient::BuildError>(())
    /// ```
    pub fn cpu_source(&self, source: impl CpuSource + Clone + Sync + 'static) {
        let make = move || -> Box<dyn CpuSource> { Box::new(source.clone()) };
        self.shared.sources().cpu = Some(Arc::new(make));
    }

    /// The memory source of a limiter without one of its own.
    pub(crate) fn memory(&self) -> Result<Box<dyn MemorySource>, SourceError> {
        let make = self.shared.sources().memory.clone();
        make.map_or_else(detect_memory, |make| Ok(make()))
    }

    /// The processor source of a limiter without one of its own.
    pub(crate) fn cpu(&self) -> Result<Box<dyn CpuSource>, SourceError> {
        let make = self.shared.sources().cpu.clone();
        make.map_or_else(detect_cpu, |make| Ok(make()))
    }

    /// Measures for all limiters now.
    ///
    /// # Errors
    ///
    /// Returns the error of the first measurement that failed. The other measurements are still taken, and each limiter
    /// has its own error in `last_error`.
    pub fn sample(&self) -> Result<(), SourceError> {
        let mut result = Ok(());
        for watch in self.shared.watches() {
            result = result.and(watch.measure());
        }
        result
    }

    /// Drives the sampler for as long as the future is polled. It never completes; drop it to stop.
    ///
    /// ```
    /// # use plimsoll::Clock;
    /// # use plimsoll_ambient::Sampler;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// let sampler = Sampler::new(Clock::system());
    /// let sampling = tokio::spawn(sampler.run());
    /// // ... build limiters, serve ...
    /// sampling.abort();
    /// # });
    /// ```
    pub fn run(&self) -> Run {
        Run::new(Arc::clone(&self.shared))
    }

    /// Drives the sampler in a thread of its own, named `plimsoll-sample`, until the guard is dropped.
    ///
    /// A sampler has at most one thread: while it runs, this returns another guard for it. The thread ends with the last
    /// guard.
    ///
    /// ```
    /// # use plimsoll::Clock;
    /// # use plimsoll_ambient::Sampler;
    /// let sampler = Sampler::new(Clock::system());
    /// let sampling = sampler.spawn()?;
    /// // ... build limiters, serve ...
    /// drop(sampling); // the thread has ended when this returns
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot start a thread.
    pub fn spawn(&self) -> std::io::Result<SamplerThread> {
        SamplerThread::start(&self.shared)
    }

    /// Returns the clock of the sampler and its limiters.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Adds a limiter, for as long as it exists.
    pub(crate) fn register(&self, watch: &Arc<Watch>) {
        let mut inside = self.shared.inside();
        inside.watches.retain(|known| known.strong_count() > 0);
        inside.watches.push(Arc::downgrade(watch));
        let drivers = std::mem::take(&mut inside.drivers);
        drop(inside);
        // Its interval may be the shortest.
        for (_, driver) in drivers {
            driver.wake();
        }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler")
            .field("clock", &self.shared.clock)
            .field("limiters", &self.shared.watches().len())
            .finish_non_exhaustive()
    }
}
