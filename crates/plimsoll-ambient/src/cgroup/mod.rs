//! The cgroups of this process.

mod cpu;
mod memory;

use std::path::{Component, Path, PathBuf};

pub use cpu::CgroupCpu;
pub use memory::CgroupMemory;

use crate::SourceError;
use crate::files::{self, Root};
use crate::parse;

/// The version of cgroups. Both can be mounted at once, each with some of the controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

/// The part of a hierarchy that this process can see: its own cgroup and those around it.
#[derive(Clone, Debug)]
struct Hierarchy {
    version: Version,
    /// Its own directory first, then its parents, as far as they are mounted.
    levels: Vec<PathBuf>,
}

impl Hierarchy {
    /// The hierarchy that controls `controller` for this process.
    fn find(root: &Root, controller: &str) -> Result<Self, SourceError> {
        let whole = |text: &str| Some(text.to_owned());
        let cgroups_file = root.path("/proc/self/cgroup");
        let cgroups = files::read(&cgroups_file, "", whole)?;
        let mounts_file = root.path("/proc/self/mountinfo");
        let mounts = files::read(&mounts_file, "", whole)?;

        let member = parse::memberships(&cgroups).find(|member| member.has(controller));
        let mount = parse::mounts(&mounts).find(|mount| mount.has(controller));
        if let Some((member, mount)) = member.zip(mount) {
            return Ok(Self::new(root, Version::V1, member.path, &mount));
        }
        let Some(member) = parse::memberships(&cgroups).find(parse::Membership::is_v2) else {
            let expected =
                format!("a line `0::/<path>`, or one with the controller `{controller}`");
            return Err(SourceError::malformed(cgroups_file, &expected, &cgroups));
        };
        let Some(mount) = parse::mounts(&mounts).find(parse::Mount::is_v2) else {
            let expected = format!("a mount of cgroup2, or of cgroup with `{controller}`");
            return Err(SourceError::malformed(mounts_file, &expected, &mounts));
        };
        Ok(Self::new(root, Version::V2, member.path, &mount))
    }

    fn new(root: &Root, version: Version, member: &str, mount: &parse::Mount<'_>) -> Self {
        let top = root.path(&mount.point);
        // In a container the mount may start below the beginning of the path. Another path belongs to a process that
        // was moved out of the mounted hierarchy.
        let below = Path::new(member)
            .strip_prefix(&mount.root)
            .ok()
            .filter(|below| {
                below
                    .components()
                    .all(|part| matches!(part, Component::Normal(_)))
            })
            .unwrap_or(Path::new(""));
        let own = top.join(below);
        let mut levels: Vec<_> = own
            .ancestors()
            .take(below.components().count() + 1)
            .filter(|level| level.is_dir())
            .map(Path::to_owned)
            .collect();
        if levels.is_empty() {
            levels.push(top);
        }
        Self { version, levels }
    }

    /// The smallest limit that applies to this process, and its level.
    fn tightest<T: PartialOrd>(
        &self,
        limit_at: impl Fn(&Path) -> Result<Option<T>, SourceError>,
    ) -> Result<Option<(&Path, T)>, SourceError> {
        let mut tightest = None;
        for level in &self.levels {
            let Some(limit) = limit_at(level)? else {
                continue;
            };
            if tightest.as_ref().is_none_or(|(_, least)| limit < *least) {
                tightest = Some((level.as_path(), limit));
            }
        }
        Ok(tightest)
    }
}
