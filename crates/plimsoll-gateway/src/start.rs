//! The settings of a gateway, and the errors of its start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_config::gateway::{GatewaySpec, Origin};
use plimsoll_config::{Config, ConfigError, Format};

use crate::tls::TlsError;

/// The configuration without a file.
const DEFAULT: &str = include_str!("default.yaml");

/// The settings of a gateway. They come from the command line, or from the program that embeds it.
///
/// ```
/// use plimsoll_config::gateway::Origin;
/// use plimsoll_gateway::{Gateway, Settings};
///
/// let mut settings = Settings::default();
/// settings.to = Some(Origin::parse("http://127.0.0.1:9000")?); // without a file: default limits
/// settings.listen = Some("127.0.0.1:0".parse()?);
/// let gateway = Gateway::start(&settings)?;
/// assert_eq!(gateway.addresses().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The file with limits and a `gateway` section. `None`: default limits, before the server in [`to`](Self::to).
    pub file: Option<PathBuf>,
    /// The upstream server, for a file without a `gateway` section or no file.
    pub to: Option<Origin>,
    /// The address to listen on. `None`: those of the file.
    pub listen: Option<SocketAddr>,
    /// The address of the admin port: live page, health, metrics. `None`: no admin port.
    pub admin: Option<SocketAddr>,
    /// The bearer token of the admin port. Required if [`admin`](Self::admin) is not a loopback address.
    pub admin_token: Option<String>,
    /// The time that open requests have to end when the gateway stops. Default: 10 seconds.
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
    /// Reads the configuration, and finds the description of the gateway.
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

/// An error at the start of a gateway.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The file has mistakes.
    Config(ConfigError),
    /// Neither the file nor the settings name an upstream server.
    NoServer,
    /// Both the file and the settings name upstream servers.
    TwoGateways,
    /// A certificate is invalid.
    Tls(TlsError),
    /// The admin port is on an address that other machines can reach, and has no token.
    OpenAdmin(SocketAddr),
    /// An address cannot be bound.
    Listen(SocketAddr, io::Error),
    /// The address of the admin port cannot be bound.
    ListenAdmin(SocketAddr, io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::NoServer => f.write_str(
                "no upstream server is configured: expected a file with `gateway`, or --to http://127.0.0.1:9000",
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
