//! Measurements of this process, and the default sources.

use crate::cgroup::{CgroupCpu, CgroupMemory};
use crate::files::{self, Root};
use crate::machine::{allowed_cores, machine_total, system};
use crate::source::{CpuReading, CpuSource, MemoryReading, MemorySource};
use crate::{SourceError, parse};

/// The resident set of this process.
///
/// It shrinks when the allocator returns memory to the system, which it does not with every `free`. Percentages refer
/// to the limit of the cgroup if there is one, otherwise to the memory of the machine.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_ambient::{Amount, MemoryLimiter, ProcessMemory, Sampler};
///
/// # if cfg!(target_os = "linux") {
/// let sampler = Sampler::new(Clock::system());
/// let source = ProcessMemory::new()?;
/// let memory = MemoryLimiter::builder(Amount::Percent(90)).source(source).build(&sampler)?;
/// assert!(memory.usage().used > 0);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ProcessMemory {
    root: Root,
    cgroup: Option<CgroupMemory>,
}

impl ProcessMemory {
    /// Creates the source and reads it once.
    ///
    /// # Errors
    ///
    /// Returns an error if `/proc` is not as expected, or not on Linux.
    pub fn new() -> Result<Self, SourceError> {
        let root = Root::of_machine("the memory of a process")?;
        // Without a cgroup that accounts for memory there is no limit.
        let cgroup = CgroupMemory::below(root.clone()).ok();
        let mut source = Self { root, cgroup };
        source.read()?;
        Ok(source)
    }
}

impl MemorySource for ProcessMemory {
    fn read(&mut self) -> Result<MemoryReading, SourceError> {
        let expected = "pages: `<size> <resident> ...`";
        let statm = self.root.path("/proc/self/statm");
        let pages = files::read(&statm, expected, parse::resident_pages)?;
        let machine = machine_total(&self.root)?;
        let limit = match &self.cgroup {
            Some(cgroup) => cgroup.limit()?,
            None => None,
        };
        Ok(MemoryReading {
            used: pages.saturating_mul(system::page_size()),
            total: Some(limit.map_or(machine, |limit| limit.min(machine))),
        })
    }
}

/// The cgroup if it has a limit, otherwise the process.
pub(crate) fn detect_memory() -> Result<Box<dyn MemorySource>, SourceError> {
    let process = ProcessMemory::new()?;
    match process.cgroup {
        Some(cgroup) if cgroup.limit()?.is_some() => Ok(Box::new(cgroup)),
        cgroup => Ok(Box::new(ProcessMemory { cgroup, ..process })),
    }
}

/// The processor time of this process.
///
/// The load is that time divided by the quota of its cgroup or, without one, by the processors it may run on. Other
/// processes of the same container do not count; [`CgroupCpu`] counts them.
#[derive(Debug)]
pub struct ProcessCpu {
    root: Root,
    cgroup: Option<CgroupCpu>,
}

impl ProcessCpu {
    /// Creates the source and reads it once.
    ///
    /// # Errors
    ///
    /// Returns an error if `/proc` is not as expected, or not on Linux.
    pub fn new() -> Result<Self, SourceError> {
        let root = Root::of_machine("the processor time of a process")?;
        // Without a cgroup there is no quota.
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

/// The cgroup if it has a quota, otherwise the process.
pub(crate) fn detect_cpu() -> Result<Box<dyn CpuSource>, SourceError> {
    let process = ProcessCpu::new()?;
    match process.cgroup {
        Some(cgroup) if cgroup.quota()?.is_some() => Ok(Box::new(cgroup)),
        cgroup => Ok(Box::new(ProcessCpu { cgroup, ..process })),
    }
}
