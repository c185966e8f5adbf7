use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Hierarchy, Version};
use crate::files::{self, Root};
use crate::machine::allowed_cores;
use crate::source::{CpuReading, CpuSource};
use crate::{SourceError, parse};

/// The processor time of the cgroup of this process, which is that of the whole container.
///
/// The load is the used time divided by the smallest quota of the cgroup and those around it (`cpu.max`, or
/// `cpu.cfs_quota_us` of version 1), measured at the cgroup that has this quota. Without a quota it is the time of the
/// own cgroup, divided by the processors this process may run on. Quotas are read with each sample, so they may change.
///
/// ```
/// use plimsoll_ambient::CgroupCpu;
///
/// // An error where no cgroup controls the processor time of the process.
/// if let Ok(cgroup) = CgroupCpu::detect() {
///     match cgroup.quota()? {
///         Some(cores) => println!("limited to {cores} cores"),
///         None => println!("not limited"),
///     }
/// }
/// # Ok::<(), plimsoll_ambient::SourceError>(())
/// ```
#[derive(Debug)]
pub struct CgroupCpu {
    root: Root,
    hierarchy: Hierarchy,
    /// The directory in which version 1 counts time, which may be another one.
    accounts: Option<Hierarchy>,
}

impl CgroupCpu {
    /// Finds the cgroup of this process, of version 1 or 2, whichever controls the processor.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or not on Linux.
    pub fn detect() -> Result<Self, SourceError> {
        Self::below(Root::of_machine("the processor time of a cgroup")?)
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
        let hierarchy = Hierarchy::find(&root, "cpu")?;
        let accounts = match hierarchy.version {
            Version::V1 => Some(Hierarchy::find(&root, "cpuacct")?),
            Version::V2 => None,
        };
        let found = Self {
            root,
            hierarchy,
            accounts,
        };
        found.measure()?;
        Ok(found)
    }

    /// Returns the smallest quota that applies to this process, in cores. `None` if its time is not limited.
    ///
    /// # Errors
    ///
    /// Returns an error if a file is not as expected.
    pub fn quota(&self) -> Result<Option<f64>, SourceError> {
        Ok(self.tightest()?.map(|(_, cores)| cores))
    }

    fn tightest(&self) -> Result<Option<(&Path, f64)>, SourceError> {
        self.hierarchy.tightest(match self.hierarchy.version {
            Version::V1 => v1_quota,
            Version::V2 => v2_quota,
        })
    }

    fn measure(&self) -> Result<CpuReading, SourceError> {
        let tightest = self.tightest()?;
        let level = tightest.map(|(level, _)| level);
        let used = match &self.accounts {
            Some(accounts) => v1_usage(accounts, level)?,
            None => v2_usage(level.unwrap_or(&self.hierarchy.levels[0]))?,
        };
        let allowed = allowed_cores(&self.root)?;
        let cores = tightest.map_or(allowed, |(_, quota)| quota.min(allowed));
        Ok(CpuReading { used, cores })
    }
}

fn v2_quota(level: &Path) -> Result<Option<f64>, SourceError> {
    let file = level.join("cpu.max");
    let quota = files::read_if_there(&file, "`<quota or max> <period>`", parse::cpu_max)?;
    Ok(quota.flatten())
}

fn v1_quota(level: &Path) -> Result<Option<f64>, SourceError> {
    let quota_file = level.join("cpu.cfs_quota_us");
    let quota = files::read_if_there(&quota_file, "microseconds, or -1", parse::v1_quota)?;
    let Some(quota) = quota.flatten() else {
        return Ok(None);
    };
    let period_file = level.join("cpu.cfs_period_us");
    files::read(&period_file, "microseconds, of a quota above 0", |text| {
        parse::cores(quota, parse::number(text)?)
    })
    .map(Some)
}

fn v2_usage(level: &Path) -> Result<Duration, SourceError> {
    let file = level.join("cpu.stat");
    files::read(&file, "a line `usage_usec <microseconds>`", |text| {
        parse::stat(text, "usage_usec").map(Duration::from_micros)
    })
}

/// The time of the cgroup at `level` if it is counted there, otherwise of this process's own.
fn v1_usage(accounts: &Hierarchy, level: Option<&Path>) -> Result<Duration, SourceError> {
    let name = "cpuacct.usage";
    let at_level: Option<PathBuf> = level
        .map(|level| level.join(name))
        .filter(|file| file.is_file());
    let file = at_level.unwrap_or_else(|| accounts.levels[0].join(name));
    files::read(&file, "a number of nanoseconds", |text| {
        parse::number(text).map(Duration::from_nanos)
    })
}

impl CpuSource for CgroupCpu {
    fn read(&mut self) -> Result<CpuReading, SourceError> {
        self.measure()
    }
}
