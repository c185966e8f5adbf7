//! Measurements of the whole machine.

use std::path::Path;

use crate::files::{self, Root};
use crate::source::{CpuReading, CpuSource};
use crate::{SourceError, parse};

/// The processor time of the whole machine, of all processes.
///
/// Time spent waiting for disks does not count as used. Time that the hypervisor gave to other guests counts as used,
/// because it was not available. The load is the used time divided by the processors of the machine.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_ambient::{CpuLimiter, MachineCpu, Sampler};
///
/// # if cfg!(target_os = "linux") {
/// let sampler = Sampler::new(Clock::system());
/// let cpu = CpuLimiter::builder(95).source(MachineCpu::new()?).name("machine").build(&sampler)?;
/// # let _ = cpu;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MachineCpu {
    root: Root,
}

impl MachineCpu {
    /// Creates the source and reads it once.
    ///
    /// # Errors
    ///
    /// Returns an error if `/proc/stat` is not as expected, or not on Linux.
    pub fn new() -> Result<Self, SourceError> {
        Self::below(Root::of_machine("the processor time of the machine")?)
    }

    /// Like [`new`](Self::new), with `/proc` below another root, for tests and for containers that mount the files of
    /// their host.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new).
    pub fn under(root: impl AsRef<Path>) -> Result<Self, SourceError> {
        Self::below(Root::at(root.as_ref()))
    }

    fn below(root: Root) -> Result<Self, SourceError> {
        let mut source = Self { root };
        source.read()?;
        Ok(source)
    }
}

impl CpuSource for MachineCpu {
    fn read(&mut self) -> Result<CpuReading, SourceError> {
        let file = self.root.path("/proc/stat");
        let expected = "a line `cpu <user> <nice> <system> <idle> ...`, and one for each processor";
        let (ticks, processors) = files::read(&file, expected, parse::machine_ticks)?;
        Ok(CpuReading {
            used: system::ticks(ticks),
            cores: as_cores(processors),
        })
    }
}

/// The number of processors that this process may run on.
///
/// `std::thread::available_parallelism` takes quotas into account as well, and rounds them down.
pub(crate) fn allowed_cores(root: &Root) -> Result<f64, SourceError> {
    let status = root.path("/proc/self/status");
    let expected = "a line `Cpus_allowed_list: <list>`";
    files::read(&status, expected, parse::allowed_cores).map(as_cores)
}

#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 processors")]
fn as_cores(count: u64) -> f64 {
    count as f64
}

/// The memory of the machine, in bytes.
pub(crate) fn machine_total(root: &Root) -> Result<u64, SourceError> {
    let meminfo = root.path("/proc/meminfo");
    files::read(&meminfo, "a line `MemTotal: <number> kB`", parse::mem_total)
}

#[cfg(target_os = "linux")]
pub(crate) mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    /// The processor time this process has used so far.
    pub(crate) fn process_time() -> Duration {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(seconds, nanos)
    }

    /// Converts ticks, the time unit of `/proc/stat`.
    pub(crate) fn ticks(ticks: u64) -> Duration {
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let nanos = ticks % per_second * 1_000_000_000 / per_second;
        Duration::from_secs(ticks / per_second) + Duration::from_nanos(nanos)
    }

    /// The size of a page in bytes.
    pub(crate) fn page_size() -> u64 {
        u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX)
    }
}

/// Never called: without the files of Linux no source can be created.
#[cfg(not(target_os = "linux"))]
pub(crate) mod system {
    use std::time::Duration;

    pub(crate) fn process_time() -> Duration {
        Duration::ZERO
    }

    pub(crate) fn ticks(_ticks: u64) -> Duration {
        Duration::ZERO
    }

    pub(crate) fn page_size() -> u64 {
        4096
    }
}
