use std::path::Path;

use super::{Hierarchy, Version};
use crate::files::{self, Root};
use crate::machine::machine_total;
use crate::source::{MemoryReading, MemorySource};
use crate::{SourceError, parse};

/// The memory of the cgroup of this process, which is that of the whole container.
///
/// The memory in use is the usage without inactive file pages, which the kernel can reclaim easily; the kubelet counts
/// the same. Percentages refer to the smallest limit of the cgroup and those around it (`memory.max`, or
/// `memory.limit_in_bytes` of version 1), and the usage is measured at the cgroup that has this limit. Without a limit
/// it is the usage of the own cgroup, out of the memory of the machine. Limits are read with each sample, so they may
/// change.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_ambient::{Amount, CgroupMemory, MemoryLimiter, Sampler};
///
/// let sampler = Sampler::new(Clock::system());
/// // An error where the memory of the process is not accounted for, as in the root cgroup.
/// if let Ok(cgroup) = CgroupMemory::detect() {
///     println!("limited to {:?} bytes", cgroup.limit()?);
///     let memory = MemoryLimiter::builder(Amount::Percent(90)).source(cgroup).build(&sampler)?;
///     println!("{:?}", memory.usage());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CgroupMemory {
    root: Root,
    hierarchy: Hierarchy,
}

/// The names of the files.
struct Names {
    limit: &'static str,
    limit_expected: &'static str,
    parse_limit: fn(&str) -> Option<Option<u64>>,
    usage: &'static str,
    inactive: &'static str,
    inactive_expected: &'static str,
}

const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    limit_expected: "a number of bytes",
    parse_limit: parse::v1_limit,
    usage: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
    inactive_expected: "a line `total_inactive_file <bytes>`",
};

const V2: Names = Names {
    limit: "memory.max",
    limit_expected: "a number of bytes, or `max`",
    parse_limit: parse::number_or_max,
    usage: "memory.current",
    inactive: "inactive_file",
    inactive_expected: "a line `inactive_file <bytes>`",
};

impl CgroupMemory {
    /// Finds the cgroup of this process, of version 1 or 2, whichever controls memory.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or its memory is not accounted for (as in the root cgroup), or not on Linux.
    pub fn detect() -> Result<Self, SourceError> {
        Self::below(Root::of_machine("the memory of a cgroup")?)
    }

    /// Like [`detect`](Self::detect), with `/proc` and `/sys` below another root, for tests and for containers that
    /// mount the files of their host.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`detect`](Self::detect).
    pub fn detect_under(root: impl AsRef<Path>) -> Result<Self, SourceError> {
        Self::below(Root::at(root.as_ref()))
    }

    pub(crate) fn below(root: Root) -> Result<Self, SourceError> {
        let hierarchy = Hierarchy::find(&root, "memory")?;
        let found = Self { root, hierarchy };
        found.measure()?;
        Ok(found)
    }

    /// Returns the smallest limit that applies to this process, in bytes. `None` if its memory is not limited.
    ///
    /// It is read now, so it may differ from the limit of the last sample.
    ///
    /// # Errors
    ///
    /// Returns an error if a file is not as expected.
    pub fn limit(&self) -> Result<Option<u64>, SourceError> {
        Ok(self.tightest()?.map(|(_, limit)| limit))
    }

    fn names(&self) -> &'static Names {
        match self.hierarchy.version {
            Version::V1 => &V1,
            Version::V2 => &V2,
        }
    }

    fn tightest(&self) -> Result<Option<(&Path, u64)>, SourceError> {
        let names = self.names();
        self.hierarchy.tightest(|level| {
            let file = level.join(names.limit);
            let limit = files::read_if_there(&file, names.limit_expected, names.parse_limit)?;
            Ok(limit.flatten())
        })
    }

    fn measure(&self) -> Result<MemoryReading, SourceError> {
        let names = self.names();
        let tightest = self.tightest()?;
        let (level, limit) = match tightest {
            Some((level, limit)) => (level, Some(limit)),
            None => (self.accounted(), None),
        };
        let usage_file = level.join(names.usage);
        let usage = files::read(&usage_file, "a number of bytes", parse::number)?;
        let stat_file = level.join("memory.stat");
        let inactive = files::read(&stat_file, names.inactive_expected, |text| {
            parse::stat(text, names.inactive)
        })?;
        let machine = machine_total(&self.root)?;
        Ok(MemoryReading {
            used: usage.saturating_sub(inactive),
            total: Some(limit.map_or(machine, |limit| limit.min(machine))),
        })
    }

    /// The innermost cgroup with memory accounting: version 2 need not account all the way down.
    fn accounted(&self) -> &Path {
        let levels = &self.hierarchy.levels;
        let usage = self.names().usage;
        let accounted = levels.iter().find(|level| level.join(usage).is_file());
        accounted.unwrap_or(&levels[0])
    }
}

impl MemorySource for CgroupMemory {
    fn read(&mut self) -> Result<MemoryReading, SourceError> {
        self.measure()
    }
}
