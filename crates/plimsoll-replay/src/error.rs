//! Errors of logs and replays.

use std::io;
use std::path::PathBuf;

use plimsoll_config::ConfigError;
use serde::Serialize;

/// A line that cannot be read, and the reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct BadLine {
    /// The file.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The reason why the line cannot be read.
    pub why: String,
    /// The first characters of the line.
    pub begins: String,
}

/// An error of [`Logs::open`](crate::Logs::open): a log cannot be read at all. Single bad lines are not errors; see [`BadLine`].
#[derive(Debug)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be opened.
    #[non_exhaustive]
    Open {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// No line of the file is a request in a known format.
    #[non_exhaustive]
    NotALog {
        /// The file.
        file: PathBuf,
        /// The first characters of the file.
        begins: String,
    },
    /// All logs together have no request.
    #[non_exhaustive]
    Empty {
        /// Examples of lines that could not be read.
        bad: Vec<BadLine>,
    },
}

impl LogError {
    /// The error of logs without a request. `bad` has examples of lines that could not be read.
    #[must_use]
    pub const fn empty(bad: Vec<BadLine>) -> Self {
        Self::Empty { bad }
    }
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open { file, error } => write!(f, "{}: cannot be read: {error}", file.display()),
            Self::NotALog { file, begins } => write!(
                f,
                "{}: no line of its beginning is a request of a known format, it begins with {begins:?}. Known are the common and combined \
                 formats, JSON lines of Caddy, Traefik and Envoy, Envoy's text, and CSV with a header; --format says which it is",
                file.display()
            ),
            Self::Empty { bad } => {
                f.write_str("expected requests, one a line, found none")?;
                bad.iter().try_for_each(|bad| write!(f, "\n{bad}"))
            }
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{}: {}: {:?}",
            self.file, self.line, self.why, self.begins
        )
    }
}

/// An error of [`Replay::run`](crate::Replay::run).
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// A log cannot be read, or all logs together have no requests.
    Log(LogError),
    /// A limit of a configuration cannot be built.
    Config(ConfigError),
    /// Suggestions need the logs to be read several times, and one of them is the standard input.
    ReadOnce,
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::ReadOnce => f.write_str("limits are suggested by reading the logs several times: expected files, found the standard input"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<LogError> for ReplayError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<ConfigError> for ReplayError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}
