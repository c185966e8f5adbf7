//! What a gateway is started with, and why it does not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_config::gateway::{GatewaySpec, Origin};
use plimsoll_config::{Config, ConfigError, Format};

use crate::tls::TlsError;

/// The limits and the gateway where no file says them.
const DEFAULT: &str = include_str!("default.yaml");

/// What a gateway is started with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The file of limits and of the gateway; limits that are of use for most, unless set.
    pub file: Option<PathBuf>,
    /// The server behind it, where no file says so.
    pub to: Option<Origin>,
    /// Where it listens, if not where the file says.
    pub listen: Option<SocketAddr>,
    /// The port for operators: the live page, health, metrics; none unless set.
    pub admin: Option<SocketAddr>,
    /// What operators must say to be answered. Needed where the admin port is not on a loopback address.
    pub admin_token: Option<String>,
    /// How long what is under way may take when the gateway stops: 10 seconds unless set.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            file: None,
            to: None,
            listen: None,
            admin: None,
            admin_token: None,
            drain: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// The limits and the gateway that are asked for.
    pub(crate) fn read(&self) -> Result<(Config, GatewaySpec), StartError> {
        let with = |to: &Origin| {
            let text = DEFAULT.replace("URL", &to.to_string());
            Config::from_str("the default limits", &text, Format::Yaml)
        };
        let config = match (&self.file, &self.to) {
            (Some(file), _) => Config::from_file(file)?,
            (None, Some(to)) => with(to)?,
            (None, None) => return Err(StartError::NoServer),
        };
        let spec = match (config.gateway(), &self.to) {
            (Some(_), Some(_)) if self.file.is_some() => return Err(StartError::TwoGateways),
            (Some(spec), _) => spec.clone(),
            (None, Some(to)) => with(to)?.gateway().cloned().ok_or(StartError::NoServer)?,
            (None, None) => return Err(StartError::NoServer),
        };
        Ok((config, spec))
    }
}

/// Why a gateway does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Something is wrong with the file.
    Config(ConfigError),
    /// Nothing says which servers are behind it.
    NoServer,
    /// Both the file and the settings name the servers.
    TwoGateways,
    /// A certificate cannot be used.
    Tls(TlsError),
    /// The admin port would be open to others than this machine, and has no token.
    OpenAdmin(SocketAddr),
    /// An address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The address for operators cannot be listened on.
    ListenAdmin(SocketAddr, io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::NoServer => f.write_str(
                "nothing says which servers are behind the gateway: expected a file with `gateway`, or --to http://127.0.0.1:9000",
            ),
            Self::TwoGateways => f.write_str("the file has a `gateway` of its own: leave out --to"),
            Self::Tls(error) => error.fmt(f),
            Self::OpenAdmin(address) => write!(
                f,
                "the admin port {address} would be open to others than this machine: expected a token for it, or a loopback address"
            ),
            Self::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}; choose another with --listen")
            }
            Self::ListenAdmin(address, error) => write!(
                f,
                "cannot listen on {address} for operators: {error}; choose another with --admin, or `--admin off`"
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<TlsError> for StartError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}
