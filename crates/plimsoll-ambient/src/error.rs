use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll::InvalidLimit;

/// The error of a measurement, with the file and what was expected of it.
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

/// The longest part of a file that an error shows.
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

    /// A file with another content than `expected`.
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

    /// The kind of the error, as in the standard library.
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

/// The error of building a limiter.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// An option is invalid.
    Invalid(InvalidLimit),
    /// There is no source, or its first measurement failed.
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
