//! The directories of a configuration: which files there are, and whether they have changed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_config::ConfigError;
use plimsoll_spec::{Place, Problem, text_of};

/// How deep directories are read.
const DEEPEST: usize = 16;
/// How many files there are at most.
const MOST: usize = 10_000;

/// All files below these directories, in the order of their names, and what they say. Names that begin with a dot are
/// left out: they are the hidden half of what Kubernetes mounts, and what editors leave behind.
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

/// Directories that are looked at now and then. A change counts when it looks the same twice: it may still be written.
#[derive(Debug, Default)]
pub(super) struct Watch {
    seen: Option<String>,
    done: Option<String>,
}

impl Watch {
    /// Takes what there is now for known.
    pub(super) fn new(read: &Result<Vec<(PathBuf, String)>, ConfigError>) -> Self {
        Self {
            seen: None,
            done: Some(said(read)),
        }
    }

    /// Whether there is something new.
    pub(super) fn has_changed(
        &mut self,
        read: &Result<Vec<(PathBuf, String)>, ConfigError>,
    ) -> bool {
        let now = Some(said(read));
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

fn said(read: &Result<Vec<(PathBuf, String)>, ConfigError>) -> String {
    match read {
        Ok(files) => files
            .iter()
            .map(|(path, text)| format!("{}\0{text}\0", path.display()))
            .collect(),
        Err(error) => error.to_string(),
    }
}
