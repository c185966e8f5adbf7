//! The kernel's files, below a root that tests can move.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::SourceError;

/// The root of `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// The root of the machine, where the kernel has such files.
    pub(crate) fn of_machine(what: &str) -> Result<Self, SourceError> {
        if cfg!(target_os = "linux") {
            Ok(Self(PathBuf::from("/")))
        } else {
            Err(SourceError::unsupported(what))
        }
    }

    pub(crate) fn at(root: &Path) -> Self {
        Self(root.to_owned())
    }

    /// The place of an absolute `path`.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

/// The text of a file. Invalid UTF-8 is replaced; every parser rejects the replacement.
fn text(file: &Path) -> Result<String, SourceError> {
    let bytes = fs::read(file).map_err(|error| SourceError::unreadable(file, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads and parses a file.
pub(crate) fn read<T>(
    file: &Path,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, SourceError> {
    let text = text(file)?;
    parse(&text).ok_or_else(|| SourceError::malformed(file, expected, &text))
}

/// Like [`read`], for files that need not exist.
pub(crate) fn read_if_there<T>(
    file: &Path,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, SourceError> {
    match read(file, expected, parse) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
