#![doc = include_str!("../README.md")]

mod accept;
mod admin;
mod api;
mod call;
mod drain;
mod envoy;
mod grpc;
mod leases;
mod page;
mod quota;
mod reload;
mod resp;
mod state;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll::Clock;
use plimsoll_config::{Config, ConfigError, Format};
use plimsoll_engine::{Limits, Parametric};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::admin::Admin;
use crate::drain::{Begin, Drain, Places};
use crate::envoy::Envoy;
pub use crate::envoy::EnvoySettings;
use crate::leases::Leases;
use crate::quota::Quotas;
use crate::state::State;

/// What is served where no file says it.
const DEFAULT: &str = include_str!("default.yaml");
/// How many connections there are at most, on all ports together.
const CONNECTIONS: usize = 20_000;
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
        if let Some(admin) = settings.admin
            && !admin.ip().is_loopback()
            && settings.admin_token.is_none()
        {
            return Err(StartError::OpenAdmin(admin));
        }
        let config = match &settings.file {
            Some(file) => Config::from_file(file)?,
            None => Config::from_str("the default limits", DEFAULT, Format::Yaml)?,
        };
        let clock = Clock::system();
        let limits = Limits::new(&config, &clock)?;
        let envoy = Envoy::new(settings.envoy, &clock)?;
        let state = State {
            quotas: Quotas::new(limits.clone(), clock.clone()),
            limits,
            parametric: Parametric::new(clock, KEYS),
            leases: Leases::new(LEASES),
            connections: Places::new(CONNECTIONS),
            reloads: Arc::default(),
            token: settings.token,
        };
        let (begin, drain) = drain::new();
        Ok(Self {
            state: Arc::new(state),
            envoy: Arc::new(envoy),
            http: listen("HTTP", settings.http).await?,
            resp: listen("RESP", settings.resp).await?,
            grpc: listen("gRPC", settings.grpc).await?,
            admin: listen("operators", settings.admin).await?,
            admin_token: settings.admin_token,
            file: settings.file,
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
            begin,
            drain,
        } = self;
        let front = envoy::Front::new(&state, &envoy);
        let mut ports = JoinSet::new();
        if let Some(listener) = http {
            let router = api::router(Arc::clone(&state)).merge(envoy::http_router(&front, &drain));
            ports.spawn(accept::serve(
                listener,
                router,
                Arc::clone(&state),
                drain.clone(),
                None,
            ));
        }
        if let Some(listener) = grpc {
            ports.spawn(grpc::serve(listener, front, drain.clone()));
        }
        if let Some(listener) = resp {
            ports.spawn(resp::serve(listener, Arc::clone(&state), drain.clone()));
        }
        let mut operators = JoinSet::new();
        // It is asked until the others have ended: whether the server is ready, above all.
        let (end_admin, admin_drain) = drain::new();
        if let Some(listener) = admin {
            let router = admin::router(Admin {
                state: Arc::clone(&state),
                drain: drain.clone(),
                token: admin_token.map(Into::into),
                streams: page::Streams::default(),
                started: tokio::time::Instant::now(),
                envoy: Arc::clone(&envoy),
            });
            operators.spawn(accept::serve(
                listener,
                router,
                Arc::clone(&state),
                admin_drain,
                None,
            ));
        }
        let leases = Arc::clone(&state);
        let expiry = tokio::spawn(async move { leases.leases.expire().await });
        let shares = tokio::spawn(Arc::clone(&state.quotas).tick());
        let configurations = tokio::spawn(envoy::watch(Arc::clone(&envoy)));
        let reload = file.map(|file| {
            let (limits, reloads) = (state.limits.clone(), Arc::clone(&state.reloads));
            tokio::spawn(reload::watch(limits, reloads, file))
        });
        stop.await;
        begin.begin();
        while ports.join_next().await.is_some() {}
        end_admin.begin();
        while operators.join_next().await.is_some() {}
        expiry.abort();
        shares.abort();
        configurations.abort();
        if let Some(reload) = reload {
            reload.abort();
        }
    }
}

async fn listen(
    what: &'static str,
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| StartError::Listen(what, address, error));
    listener.map(Some)
}
