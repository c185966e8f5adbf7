//! Files as the kernel would show them, in a directory of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Tree(PathBuf);

pub(crate) const MACHINE: u64 = 8_000_000 * 1024;

impl Tree {
    /// With what every machine has: 8 GB of memory and four processors, of which the process may use three.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tree-{}-{next}", std::process::id());
        let tree = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        tree.file(
            "proc/meminfo",
            "MemTotal:        8000000 kB\nMemFree:   100 kB\n",
        )
        .file(
            "proc/self/status",
            "Name:\tserver\nCpus_allowed_list:\t0-1,3\n",
        );
        tree
    }

    /// In which cgroups the process is, and what of them is mounted.
    pub(crate) fn cgroups(&self, member: &str, mounts: &str) -> &Self {
        self.file("proc/self/cgroup", member)
            .file("proc/self/mountinfo", mounts)
    }

    pub(crate) fn file(&self, path: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).expect("a directory");
        }
        fs::write(path, contents).expect("a file");
        self
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _left_over = fs::remove_dir_all(&self.0);
    }
}
