use std::path::Path;
use std::time::Duration;

use crate::files::{self, Root};
use crate::{CgroupCpu, SourceError, parse};

/// How much processor time has been used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpuReading {
    /// Used so far, by all processors together, since any moment that stays the same.
    pub used: Duration,
    /// How many processors could be used; a quota need not be a whole number.
    pub cores: f64,
}

/// Says how much processor time has been used.
///
/// A closure is a source.
pub trait CpuSource: Send {
    /// Measures now. Called by one at a time, and at most as often as somebody samples.
    ///
    /// # Errors
    ///
    /// If it cannot be measured now.
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

/// The processor time of this process, against the quota of its cgroup, or the processors it may run on.
#[derive(Debug)]
pub struct ProcessCpu {
    root: Root,
    cgroup: Option<CgroupCpu>,
}

impl ProcessCpu {
    /// The processor time of this process.
    ///
    /// # Errors
    ///
    /// If `/proc` is not as expected, or not on Linux.
    pub fn new() -> Result<Self, SourceError> {
        let root = Root::of_machine("the processor time of a process")?;
        // No cgroup, then there is no quota of one.
        let cgroup = CgroupCpu::below(root.clone()).ok();
        let mut source = Self { root, cgroup };
        source.read()?;
        Ok(source)
    }
}

impl CpuSource for ProcessCpu {
    fn read(&mut self) -> Result<CpuReading, SourceError> {
        let allowed = allowed_cores(&self.root)?;
        let quota = match &self.cgroup {
            Some(cgroup) => cgroup.quota()?,
            None => None,
        };
        Ok(CpuReading {
            used: system::process_time(),
            cores: quota.map_or(allowed, |quota| quota.min(allowed)),
        })
    }
}

/// The processor time of the whole machine, whoever uses it.
///
/// Waiting for disks is no use of a processor; time that a hypervisor gave to others is, for it was not to be had.
#[derive(Debug)]
pub struct MachineCpu {
    root: Root,
}

impl MachineCpu {
    /// The processor time of the machine.
    ///
    /// # Errors
    ///
    /// If `/proc/stat` is not as expected, or not on Linux.
    pub fn new() -> Result<Self, SourceError> {
        Self::below(Root::of_machine("the processor time of the machine")?)
    }

    /// As [`new`](Self::new), with `/proc` below another root.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
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

/// The cgroup if it has a quota, otherwise the process.
pub(super) fn detect() -> Result<Box<dyn CpuSource>, SourceError> {
    let process = ProcessCpu::new()?;
    match process.cgroup {
        Some(cgroup) if cgroup.quota()?.is_some() => Ok(Box::new(cgroup)),
        cgroup => Ok(Box::new(ProcessCpu { cgroup, ..process })),
    }
}

/// How many processors this process may run on.
///
/// The standard library's count knows of quotas too, and rounds them down.
pub(crate) fn allowed_cores(root: &Root) -> Result<f64, SourceError> {
    let status = root.path("/proc/self/status");
    let expected = "a line `Cpus_allowed_list: <list>`";
    files::read(&status, expected, parse::allowed_cores).map(as_cores)
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 processors")]
fn as_cores(count: u64) -> f64 {
    count as f64
}

#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    /// What this process has used so far.
    pub(super) fn process_time() -> Duration {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(seconds, nanos)
    }

    /// The kernel's unit of time, in time.
    pub(super) fn ticks(ticks: u64) -> Duration {
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let nanos = ticks % per_second * 1_000_000_000 / per_second;
        Duration::from_secs(ticks / per_second) + Duration::from_nanos(nanos)
    }
}

/// Never asked: the files these are about are not there.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::Duration;

    pub(super) fn process_time() -> Duration {
        Duration::ZERO
    }

    pub(super) fn ticks(_ticks: u64) -> Duration {
        Duration::ZERO
    }
}
