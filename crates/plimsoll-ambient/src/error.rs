use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll::InvalidLimit;

/// The error of a measurement, with the file and its expected content.
///
/// Sources return it. A limiter whose source fails keeps its last answer for two check intervals, then answers as
/// [`WhenUnknown`](crate::WhenUnknown) sets; its `last_error` returns the error.
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
    /// Creates an error without a file, for a [source](crate::MemorySource) of your own.
    ///
    /// ```
    /// use plimsoll_ambient::{MemoryReading, MemorySource, SourceError};
    ///
    /// /// The statistics of an allocator that may not be enabled.
    /// fn allocated(statistics: Option<u64>) -> Result<MemoryReading, SourceError> {
    ///     let used = statistics.ok_or_else(|| SourceError::new("the allocator has no statistics"))?;
    ///     Ok(MemoryReading { used, total: None })
    /// }
    ///
    /// let mut source = || allocated(None);
    /// assert_eq!(source.read().unwrap_err().to_string(), "the allocator has no statistics");
    /// ```
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            file: None,
            kind: io::ErrorKind::Other,
            what: what.into(),
        }
    }

    /// Creates the error of a file that cannot be read. Its [kind](Self::kind) is that of `error`.
    #[must_use]
    pub fn unreadable(file: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self {
            file: Some(file.into()),
            kind: error.kind(),
            what: format!("cannot be read: {error}"),
        }
    }

    /// Creates the error of a file with content other than `expected`. The message shows the first 40 characters of
    /// `found`.
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

    /// Returns the file that could not be read or parsed, if the error is about a file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the kind of the error: [`InvalidData`](io::ErrorKind::InvalidData) for a malformed file,
    /// [`Unsupported`](io::ErrorKind::Unsupported) for a source that exists on Linux only.
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
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_ambient::{Amount, BuildError, MemoryLimiter, Sampler};
///
/// let sampler = Sampler::new(Clock::system());
/// let error = MemoryLimiter::builder(Amount::Percent(101)).build(&sampler).unwrap_err();
/// assert!(matches!(error, BuildError::Invalid(_)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is invalid.
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
