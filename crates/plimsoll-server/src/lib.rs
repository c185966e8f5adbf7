#![doc = include_str!("../README.md")]

mod admin;
mod api;
mod call;
mod envoy;
mod grpc;
mod keeping;
mod leases;
mod quota;
mod resp;
mod snapshot;
mod state;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::Clock;
use plimsoll_admin::systemd::{self, Sockets};
use plimsoll_admin::{Admin, Begin, Drain, Hangup, Places, Reloads};
use plimsoll_config::{Config, ConfigError, Format};
use plimsoll_engine::{Limits, Parametric};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use plimsoll_engine::{LimitView, LimiterKind};

use crate::admin::Served;
use crate::envoy::Envoy;
pub use crate::envoy::EnvoySettings;
use crate::leases::Leases;
use crate::quota::Quotas;
use crate::snapshot::Snapshots;
use crate::state::State;

/// What is served where no file says it.
const DEFAULT: &str = include_str!("default.yaml");
/// How many leases there are at most.
const LEASES: usize = 1_000_000;
/// How many keys of `CL.THROTTLE` are known for each terms.
const KEYS: usize = 10_000_000;

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
    /// a directory. They are kept nowhere unless it is set.
    pub state: Option<PathBuf>,
    /// How often they are written there, beside at the end: what was used since then is forgotten by a crash.
    pub state_every: Duration,
    /// How long what is under way may take when the server stops.
    pub drain: Duration,
    /// How long the head of an HTTP request may take, and how long a client may say nothing at all.
    pub head: Duration,
    /// How many connections there are at most, on all ports together. More are closed at once.
    pub connections: usize,
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
            state_every: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            head: Duration::from_secs(10),
            connections: 20_000,
        }
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

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    state: Arc<State>,
    envoy: Arc<Envoy>,
    http: Option<TcpListener>,
    resp: Option<TcpListener>,
    grpc: Option<TcpListener>,
    admin: Option<TcpListener>,
    admin_token: Option<String>,
    file: Option<PathBuf>,
    hangup: Hangup,
    state_every: Duration,
    begin: Begin,
    drain: Drain,
}

impl Server {
    /// Reads the file and listens on all ports.
    ///
    /// # Errors
    ///
    /// If something is wrong with the file, or a port cannot be listened on.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        // Before anything else: no request is refused meanwhile, and nothing of the state is read in vain.
        let mut sockets = Sockets::of_environment().map_err(StartError::Sockets)?;
        let admin = listen("admin", settings.admin, &mut sockets).await?;
        if let Some(address) = admin.as_ref().and_then(|it| it.local_addr().ok())
            && !address.ip().is_loopback()
            && settings.admin_token.is_none()
        {
            return Err(StartError::OpenAdmin(address));
        }
        let http = listen("http", settings.http, &mut sockets).await?;
        let resp = listen("resp", settings.resp, &mut sockets).await?;
        let grpc = listen("grpc", settings.grpc, &mut sockets).await?;
        if let Some(name) = sockets.left() {
            return Err(StartError::Socket(name.to_owned()));
        }
        let config = match &settings.file {
            Some(file) => Config::from_file(file)?,
            None => Config::from_str("the default limits", DEFAULT, Format::Yaml)?,
        };
        let clock = Clock::system();
        let (snapshots, kept) = match &settings.state {
            None => (None, None),
            Some(directory) => {
                let failed = |error| StartError::State(directory.clone(), error);
                let snapshots = Snapshots::open(directory).map_err(failed)?;
                let kept = snapshots.read(clock.precise_now()).map_err(failed)?;
                (Some(snapshots), kept)
            }
        };
        let heads = kept.as_ref().map_or(&[][..], |kept| &kept.limits);
        let limits = Limits::of(config.build_saved(&clock, heads)?);
        let parametric = Parametric::new(clock.clone(), KEYS);
        let envoy = Envoy::new(settings.envoy, &clock)?;
        if let (Some(kept), Some(directory)) = (kept, settings.state) {
            let age = kept.age;
            let restored = kept.restore(&limits, envoy.limits(), &parametric);
            let restored = restored.map_err(|error| StartError::State(directory, error))?;
            tracing::info!(restored, ?age, "went on from a snapshot");
        }
        let (begin, drain) = Begin::new();
        let state = State {
            quotas: Quotas::new(limits.clone(), clock.clone()),
            limits,
            envoy: envoy.limits().clone(),
            parametric,
            snapshots,
            clock,
            drain: drain.clone(),
            last: settings.drain,
            head: settings.head,
            leases: Leases::new(LEASES),
            connections: Places::new(settings.connections),
            reloads: Reloads::default(),
            token: settings.token,
        };
        Ok(Self {
            state: Arc::new(state),
            envoy: Arc::new(envoy),
            http,
            resp,
            grpc,
            admin,
            admin_token: settings.admin_token,
            file: settings.file,
            hangup: Hangup::new(),
            state_every: settings.state_every,
            begin,
            drain,
        })
    }

    /// The limits that are served.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.state.limits
    }

    /// Where it listens for HTTP, RESP, gRPC and operators.
    #[must_use]
    pub fn addresses(&self) -> [Option<SocketAddr>; 4] {
        let address = |listener: &Option<TcpListener>| listener.as_ref()?.local_addr().ok();
        [&self.http, &self.resp, &self.grpc, &self.admin].map(address)
    }

    /// Serves until `stop` is ready; then nothing new is accepted, and what is under way ends.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self {
            state,
            envoy,
            http,
            resp,
            grpc,
            admin,
            admin_token,
            file,
            hangup,
            state_every,
            begin,
            drain,
        } = self;
        let front = envoy::Front::new(&state, &envoy);
        let mut ports = JoinSet::new();
        if let Some(listener) = http {
            let router = api::router(Arc::clone(&state)).merge(envoy::http_router(&front, &drain));
            ports.spawn(state.http_port().serve(listener, router, drain.clone()));
        }
        if let Some(listener) = grpc {
            ports.spawn(grpc::serve(listener, front, drain.clone()));
        }
        if let Some(listener) = resp {
            let state = Arc::clone(&state);
            ports.spawn(resp::serve(listener, state));
        }
        let mut operators = JoinSet::new();
        // It is asked until the others have ended: whether the server is ready, above all.
        let (end_admin, admin_drain) = Begin::new();
        if let Some(listener) = admin {
            let served = Arc::new(Served {
                state: Arc::clone(&state),
                envoy: Arc::clone(&envoy),
            });
            let (limits, reloads) = (state.limits.clone(), state.reloads.clone());
            let admin = Admin::new(limits, reloads, drain.clone(), served).token(admin_token);
            let port = state.http_port();
            operators.spawn(port.serve(listener, admin.router(), admin_drain));
        }
        let leases = Arc::clone(&state);
        let expiry = tokio::spawn(async move { leases.leases.expire().await });
        let shares = tokio::spawn(Arc::clone(&state.quotas).tick());
        let configurations = tokio::spawn(envoy::watch(Arc::clone(&envoy)));
        let (limits, reloads) = (state.limits.clone(), state.reloads.clone());
        let replaced = limits.clone();
        let replace = move |config: &Config| replaced.replace(config);
        let reload = match file {
            Some(file) => tokio::spawn(reloads.watch(file, hangup, limits, replace)),
            None => tokio::spawn(hangup.ignore()),
        };
        let keeping = tokio::spawn(keeping::now_and_then(Arc::clone(&state), state_every));
        let watchdog = tokio::spawn(systemd::watchdog());
        systemd::ready(state.limits.names().len());
        stop.await;
        systemd::stopping(state.last);
        tracing::info!("stopping: nothing new is accepted, and what is under way ends");
        begin.begin();
        while ports.join_next().await.is_some() {}
        keeping.abort();
        watchdog.abort();
        keeping::write(&state).await;
        end_admin.begin();
        while operators.join_next().await.is_some() {}
        expiry.abort();
        shares.abort();
        configurations.abort();
        reload.abort();
    }
}

/// Listens on a port: on the socket of this name that was passed on, or on an address.
async fn listen(
    what: &'static str,
    address: Option<SocketAddr>,
    sockets: &mut Sockets,
) -> Result<Option<TcpListener>, StartError> {
    if let Some(passed) = sockets.take(what) {
        let listener = TcpListener::from_std(passed).map_err(StartError::Sockets);
        return listener.map(Some);
    }
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| StartError::Listen(what, address, error));
    listener.map(Some)
}
