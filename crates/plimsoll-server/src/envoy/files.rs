//! Reads the files of the configuration directories and detects changes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_config::ConfigError;
use plimsoll_spec::{Place, Problem, text_of};

/// Maximum depth of directories.
const DEEPEST: usize = 16;
/// Maximum number of files.
const MOST: usize = 10_000;

/// All files below these directories with their contents, sorted by path. Skips names that begin with a dot: hidden directories
/// of Kubernetes mounts and temporary files of editors.
pub(super) fn read(directories: &[PathBuf]) -> Result<Vec<(PathBuf, String)>, ConfigError> {
    let mut paths = BTreeSet::new();
    for directory in directories {
        list(directory, DEEPEST, &mut paths)
            .map_err(|error| ConfigError::problem(directory, problem(&error)))?;
    }
    paths
        .into_iter()
        .map(|path| {
            let text = text_of(&path)?;
            Ok((path, text))
        })
        .collect()
}

fn problem(error: &io::Error) -> Problem {
    Problem::new(
        Place::START,
        format!("expected a directory with configurations: {error}"),
    )
}

fn list(path: &Path, deep: usize, paths: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_dir() {
        paths.insert(path.to_owned());
        return match paths.len() > MOST {
            true => Err(io::Error::other(format!("more than {MOST} files"))),
            false => Ok(()),
        };
    }
    if deep == 0 {
        return Err(io::Error::other(format!(
            "nested more than {DEEPEST} deep at {}",
            path.display()
        )));
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            list(&entry.path(), deep - 1, paths)?;
        }
    }
    Ok(())
}

/// Detects changes between reads. A change is reported after two equal reads, because files may still be being written.
#[derive(Debug, Default)]
pub(super) struct Watch {
    seen: Option<String>,
    done: Option<String>,
}

impl Watch {
    /// Starts from the result of the first read.
    pub(super) fn new(read: &Result<Vec<(PathBuf, String)>, ConfigError>) -> Self {
        Self {
            seen: None,
            done: Some(fingerprint(read)),
        }
    }

    /// Whether the files have changed since the last report.
    pub(super) fn has_changed(
        &mut self,
        read: &Result<Vec<(PathBuf, String)>, ConfigError>,
    ) -> bool {
        let now = Some(fingerprint(read));
        if self.done == now {
            self.seen = None;
            return false;
        }
        if self.seen != now {
            self.seen = now;
            return false;
        }
        self.done = self.seen.take();
        true
    }
}

fn fingerprint(read: &Result<Vec<(PathBuf, String)>, ConfigError>) -> String {
    match read {
        Ok(files) => files
            .iter()
            .map(|(path, text)| format!("{}\0{text}\0", path.display()))
            .collect(),
        Err(error) => error.to_string(),
    }
}
