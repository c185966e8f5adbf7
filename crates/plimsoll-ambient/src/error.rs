use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll::InvalidLimit;

/// A measurement that failed: which file, and what was expected of it.
///
/// ```
/// use plimsoll_ambient::SourceError;
///
/// let error = SourceError::malformed("/sys/fs/cgroup/cpu.max", "`<quota> <period>`", "soon");
/// assert_eq!(error.to_string(), "/sys/fs/cgroup/cpu.max: expected `<quota> <period>`, found \"soon\"");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceError {
    file: Option<PathBuf>,
    kind: io::ErrorKind,
    what: String,
}

/// As much of a file as an error shows of it.
const SHOWN: usize = 40;

impl SourceError {
    /// A source that cannot measure for a reason of its own.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            file: None,
            kind: io::ErrorKind::Other,
            what: what.into(),
        }
    }

    /// A file that cannot be read.
    #[must_use]
    pub fn unreadable(file: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self {
            file: Some(file.into()),
            kind: error.kind(),
            what: format!("cannot be read: {error}"),
        }
    }

    /// A file that says something else than `expected`.
    #[must_use]
    pub fn malformed(file: impl Into<PathBuf>, expected: &str, found: &str) -> Self {
        let found = found.trim();
        let start: String = found.chars().take(SHOWN).collect();
        let more = if start.len() < found.len() { "..." } else { "" };
        Self {
            file: Some(file.into()),
            kind: io::ErrorKind::InvalidData,
            what: format!("expected {expected}, found {start:?}{more}"),
        }
    }

    pub(crate) fn unsupported(what: &str) -> Self {
        Self {
            file: None,
            kind: io::ErrorKind::Unsupported,
            what: format!("{what} can be measured on Linux only"),
        }
    }

    /// The file it is about, if it is about one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What kind of error it is, in the words of the standard library.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        f.write_str(&self.what)
    }
}

impl Error for SourceError {}

/// Why a limiter could not be built.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// An option is wrong.
    Invalid(InvalidLimit),
    /// There is nothing to measure, or it could not be measured.
    Source(SourceError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Source(error) => error.fmt(f),
        }
    }
}

impl Error for BuildError {}

impl From<InvalidLimit> for BuildError {
    fn from(invalid: InvalidLimit) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<SourceError> for BuildError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}
