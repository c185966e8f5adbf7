//! Errors of replays.

use plimsoll_config::ConfigError;

use crate::log::LogError;

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
