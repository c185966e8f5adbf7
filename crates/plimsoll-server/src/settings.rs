//! The settings of a server, and the errors of starting it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_config::{ConfigError, ServeSpec};
use plimsoll_spec::Period;

use crate::envoy::EnvoySettings;

/// The settings of a [`Server`](crate::Server): its ports, its limits and its bounds.
///
/// ```
/// use plimsoll_server::Settings;
///
/// let mut settings = Settings::default();
/// settings.file = Some("limits.yaml".into());
/// settings.resp = None; // closes the RESP port
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The file of limits. If `None`, the server enforces a few limits to try it out.
    pub file: Option<PathBuf>,
    /// The address for checks over HTTP. `None` closes the port, as for the other addresses.
    pub http: Option<SocketAddr>,
    /// The address for clients of Redis (RESP).
    pub resp: Option<SocketAddr>,
    /// The address for gRPC: Envoy's services, health and reflection.
    pub grpc: Option<SocketAddr>,
    /// The address of the admin port.
    pub admin: Option<SocketAddr>,
    /// The configuration of Envoy's reference server.
    pub envoy: EnvoySettings,
    /// The token that clients must send. `None` requires no token.
    pub token: Option<String>,
    /// The token that operators must send. An admin port that is not on a loopback address requires one.
    pub admin_token: Option<String>,
    /// The directory for snapshots of limits in memory, so that a restart does not allow a burst. Each server needs a directory of its
    /// own. If it is set neither here nor in the file (`serve: { state_dir: … }`), no snapshots are written.
    pub state_dir: Option<PathBuf>,
    /// The interval between snapshots; one more is written at shutdown. A crash loses the usage since the last snapshot. 30 s
    /// if it is set neither here nor in the file.
    pub state_every: Option<Duration>,
    /// The maximum age of a gRPC connection, plus or minus ten per cent. Older connections receive GOAWAY, so that proxies reconnect
    /// and spread over servers that were added. Calls in progress may take another hour. A day, as in the reference server, if it
    /// is set neither here nor in the file.
    pub grpc_age: Option<Duration>,
    /// The time that requests in progress have after the server begins to stop.
    pub drain: Duration,
    /// Timeout for the head of an HTTP request, for its body, and for an idle connection.
    pub head_timeout: Duration,
    /// Maximum number of connections, on all ports together. Connections above it are closed at once.
    pub max_connections: usize,
    /// The collector to which traces of decisions are exported over OTLP, such as `http://127.0.0.1:4318`. If it is empty, the variables
    /// `OTEL_EXPORTER_OTLP_*` name the collector. `None` disables tracing. Needs the feature `otlp`.
    pub otlp: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let local = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Self {
            file: None,
            http: local(8420),
            resp: local(8421),
            grpc: local(8423),
            admin: local(8422),
            envoy: EnvoySettings::default(),
            token: None,
            admin_token: None,
            state_dir: None,
            state_every: None,
            grpc_age: None,
            drain: Duration::from_secs(10),
            head_timeout: Duration::from_secs(10),
            max_connections: 20_000,
            otlp: None,
        }
    }
}

impl Settings {
    /// Fills settings that are `None` from the section `serve` of the file.
    pub(crate) fn fill(&mut self, file: Option<&ServeSpec>) {
        let Some(file) = file else {
            return;
        };
        let span = |period: Period| Duration::from_nanos(period.0);
        self.state_dir =
            (self.state_dir.take()).or_else(|| file.state_dir.as_ref().map(Into::into));
        self.state_every = self.state_every.or(file.state_every.map(span));
        self.grpc_age = self.grpc_age.or(file.grpc_age.map(span));
    }
}

/// Why [`Server::start`](crate::Server::start) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The file of limits is invalid.
    Config(ConfigError),
    /// A port cannot be bound: its name, its address and the cause.
    Listen(&'static str, SocketAddr, io::Error),
    /// The sockets that systemd passed cannot be used.
    Sockets(io::Error),
    /// systemd passed a socket whose name is not that of a port.
    Socket(String),
    /// The snapshot in this directory cannot be read, or the directory cannot be written.
    State(PathBuf, io::Error),
    /// The settings for traces are invalid.
    Otlp(String),
    /// The admin port would be reachable from other machines, and has no token.
    OpenAdmin(SocketAddr),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen(what, address, error) => {
                write!(f, "cannot listen on {address} for {what}: {error}")
            }
            Self::Sockets(error) => {
                write!(f, "cannot use the sockets that were passed on: {error}")
            }
            Self::Socket(name) => write!(
                f,
                "a socket that was passed on is called {name:?}: expected `http`, `resp`, `grpc` or `admin` (FileDescriptorName= of the socket unit)"
            ),
            Self::State(directory, error) => {
                write!(f, "cannot keep states in {}: {error}", directory.display())
            }
            Self::Otlp(why) => write!(f, "cannot send traces: {why}"),
            Self::OpenAdmin(address) => write!(
                f,
                "the admin port {address} would be open to others than this machine: expected a token for it, or a loopback address"
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
