//! A temporary directory for the file of limits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> io::Result<Self> {
        let mut number = 0;
        loop {
            let name = format!("plimsoll-demo-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                made => return made.map(|()| Self(path)),
            }
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("gateway.yaml")
    }

    /// Writes a file atomically.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let beside = self.0.join("gateway.yaml.new");
        fs::write(&beside, text)?;
        fs::rename(beside, self.file())
    }
}

impl AsRef<Path> for Directory {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
