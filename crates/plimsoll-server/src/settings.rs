//! What a server is told, and why it does not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_config::{ConfigError, ServeSpec};
use plimsoll_spec::Period;

use crate::envoy::EnvoySettings;

/// Where a server listens, and what it serves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The file of limits; a few that are of use to try it out, unless set.
    pub file: Option<PathBuf>,
    /// The port for checks over HTTP.
    pub http: Option<SocketAddr>,
    /// The port for clients of Redis.
    pub resp: Option<SocketAddr>,
    /// The port for gRPC: Envoy, health, reflection.
    pub grpc: Option<SocketAddr>,
    /// The port for operators.
    pub admin: Option<SocketAddr>,
    /// The configuration of Envoy's reference server, if there is one.
    pub envoy: EnvoySettings,
    /// What clients must say to be answered.
    pub token: Option<String>,
    /// What operators must say to be answered.
    pub admin_token: Option<String>,
    /// The directory in which the states of limits in memory are kept, so that a restart is not a free burst. One server to
    /// a directory. They are kept nowhere unless it is set, here or in the file (`serve: { state_dir: … }`).
    pub state: Option<PathBuf>,
    /// How often they are written there, beside at the end: what was used since then is forgotten by a crash. Every 30 s
    /// unless it is set, here or in the file.
    pub state_every: Option<Duration>,
    /// How old a connection over gRPC becomes, ten per cent more or less, before its client is told to open another one, so
    /// that proxies spread over servers that were added. A day, as in the reference server, unless it is set, here or in the
    /// file. Calls that are under way then may take an hour more.
    pub grpc_age: Option<Duration>,
    /// How long what is under way may take when the server stops.
    pub drain: Duration,
    /// How long the head of an HTTP request may take, and its body, and how long a client may say nothing at all.
    pub head: Duration,
    /// How many connections there are at most, on all ports together. More are closed at once.
    pub connections: usize,
    /// The collector that traces of decisions are sent to over OTLP, such as `http://127.0.0.1:4318`; if it is empty, the
    /// one that the variables `OTEL_EXPORTER_OTLP_*` name. None are made unless it is set. Needs the feature `otlp`.
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
            state: None,
            state_every: None,
            grpc_age: None,
            drain: Duration::from_secs(10),
            head: Duration::from_secs(10),
            connections: 20_000,
            otlp: None,
        }
    }
}

impl Settings {
    /// Takes from a file what is set nowhere else.
    pub(crate) fn fill(&mut self, file: Option<&ServeSpec>) {
        let Some(file) = file else {
            return;
        };
        let span = |period: Period| Duration::from_nanos(period.0);
        self.state = (self.state.take()).or_else(|| file.state_dir.as_ref().map(Into::into));
        self.state_every = self.state_every.or(file.state_every.map(span));
        self.grpc_age = self.grpc_age.or(file.grpc_age.map(span));
    }
}

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Something is wrong with the file.
    Config(ConfigError),
    /// A port cannot be listened on.
    Listen(&'static str, SocketAddr, io::Error),
    /// The sockets that were passed on cannot be used.
    Sockets(io::Error),
    /// A socket that was passed on has a name that says nothing.
    Socket(String),
    /// States of limits cannot be kept in this directory.
    State(PathBuf, io::Error),
    /// Traces cannot be sent as it was asked for.
    Otlp(String),
    /// The admin port would be open to others than this machine, and has no token.
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
