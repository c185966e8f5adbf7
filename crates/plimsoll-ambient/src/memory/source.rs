use crate::files::{self, Root};
use crate::{CgroupMemory, SourceError, parse};

/// How much memory is in use, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryReading {
    /// What is in use.
    pub used: u64,
    /// What there is, if the source knows: percentages are of this.
    pub total: Option<u64>,
}

/// Says how much memory is in use.
///
/// A closure is a source, so that anything can be: what an allocator knows, a pool of buffers, numbers of a test.
pub trait MemorySource: Send {
    /// Measures now. Called by one at a time, and at most as often as somebody samples.
    ///
    /// # Errors
    ///
    /// If it cannot be measured now.
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

/// The memory of this process: what of it is in the machine's memory (the resident set).
///
/// It falls when the allocator gives memory back to the system, which is not with every `free`. Percentages are of the
/// limit of the cgroup if there is one, otherwise of the memory of the machine.
#[derive(Debug)]
pub struct ProcessMemory {
    root: Root,
    cgroup: Option<CgroupMemory>,
}

impl ProcessMemory {
    /// The memory of this process.
    ///
    /// # Errors
    ///
    /// If `/proc` is not as expected, or not on Linux.
    pub fn new() -> Result<Self, SourceError> {
        let root = Root::of_machine("the memory of a process")?;
        // No cgroup, or one that does not account for memory: then there is no limit of one.
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
            used: pages.saturating_mul(page_size()),
            total: Some(limit.map_or(machine, |limit| limit.min(machine))),
        })
    }
}

/// The cgroup if it has a limit, otherwise the process.
pub(super) fn detect() -> Result<Box<dyn MemorySource>, SourceError> {
    let process = ProcessMemory::new()?;
    match process.cgroup {
        Some(cgroup) if cgroup.limit()?.is_some() => Ok(Box::new(cgroup)),
        cgroup => Ok(Box::new(ProcessMemory { cgroup, ..process })),
    }
}

/// How much memory the machine has.
pub(crate) fn machine_total(root: &Root) -> Result<u64, SourceError> {
    let meminfo = root.path("/proc/meminfo");
    files::read(&meminfo, "a line `MemTotal: <number> kB`", parse::mem_total)
}

#[cfg(target_os = "linux")]
fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX)
}

/// Never asked: the file it is about is not there.
#[cfg(not(target_os = "linux"))]
fn page_size() -> u64 {
    4096
}
