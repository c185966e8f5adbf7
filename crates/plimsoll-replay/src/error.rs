//! Why a replay cannot be had.

use plimsoll_config::ConfigError;

use crate::log::LogError;

/// Why a replay cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// A log cannot be read.
    Log(LogError),
    /// A limit cannot be built.
    Config(ConfigError),
    /// Limits are suggested by reading the logs several times, which the standard input cannot be.
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
