#![doc = include_str!("../README.md")]

mod admin;
mod api;
mod body;
mod call;
mod envoy;
mod grpc;
mod keeping;
mod leases;
mod quota;
mod resp;
mod settings;
mod snapshot;
mod state;
mod trace;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::Clock;
use plimsoll_admin::systemd::{self, Sockets};
use plimsoll_admin::{Admin, Begin, Drain, Hangup, Places, Reloads};
use plimsoll_config::{Config, Format};
use plimsoll_engine::{Limits, Parametric};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use plimsoll_engine::{LimitView, LimiterKind};

use crate::admin::Served;
use crate::envoy::Envoy;
pub use crate::envoy::EnvoySettings;
use crate::leases::Leases;
use crate::quota::Quotas;
pub use crate::settings::{Settings, StartError};
use crate::snapshot::Snapshots;
use crate::state::State;
use crate::trace::Traces;

/// What is served where no file says it.
const DEFAULT: &str = include_str!("default.yaml");
/// How many leases there are at most.
const LEASES: usize = 1_000_000;
/// How many keys of `CL.THROTTLE` are known for each terms.
const KEYS: usize = 10_000_000;
/// How often states are written unless it is said.
const STATE_EVERY: Duration = Duration::from_secs(30);
/// How old connections over gRPC become unless it is said: as old as those of the reference server.
const GRPC_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the last traces may take.
const FLUSH: Duration = Duration::from_secs(5);

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
    grpc_age: Duration,
    begin: Begin,
    drain: Drain,
}

impl Server {
    /// Reads the file and listens on all ports.
    ///
    /// # Errors
    ///
    /// If something is wrong with the file, or a port cannot be listened on.
    pub async fn start(mut settings: Settings) -> Result<Self, StartError> {
        let traces = Traces::new(settings.otlp.as_deref()).map_err(StartError::Otlp)?;
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
        settings.fill(config.serve());
        let clock = Clock::system();
        let (snapshots, restarted, kept) = match &settings.state {
            // Nobody knows whether there was a server before.
            None => (None, true, None),
            Some(directory) => {
                let failed = |error| StartError::State(directory.clone(), error);
                let snapshots = Snapshots::open(directory).map_err(failed)?;
                let now = clock.precise_now();
                let restarted = snapshots.shares_may_last(now);
                let kept = snapshots.read(now).map_err(failed)?;
                snapshots.note_shares(None);
                (Some(snapshots), restarted, kept)
            }
        };
        let heads = kept.as_ref().map_or(&[][..], |kept| &kept.limits);
        let limits = Limits::of(config.build_saved(&clock, heads)?);
        let parametric = Parametric::new(clock.clone(), KEYS);
        let envoy = Envoy::new(settings.envoy, &clock)?;
        if let (Some(kept), Some(directory)) = (kept, settings.state) {
            let age = kept.age;
            envoy.remember(&kept.envoy);
            let restored = kept.restore(&limits, envoy.limits(), &parametric);
            let restored = restored.map_err(|error| StartError::State(directory, error))?;
            tracing::info!(restored, ?age, "went on from a snapshot");
        }
        let (begin, drain) = Begin::new();
        let state = State {
            quotas: Quotas::new(limits.clone(), clock.clone(), restarted),
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
            traces,
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
            state_every: settings.state_every.unwrap_or(STATE_EVERY),
            grpc_age: settings.grpc_age.unwrap_or(GRPC_AGE),
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
            grpc_age,
            begin,
            drain,
        } = self;
        let front = envoy::Front::new(&state, &envoy);
        let mut ports = JoinSet::new();
        if let Some(listener) = http {
            let router = api::router(Arc::clone(&state)).merge(envoy::http_router(&front, &drain));
            let port = api::Port::new(&state, state.traces.layer(router));
            ports.spawn(state.http_port().serve(listener, port, drain.clone()));
        }
        if let Some(listener) = grpc {
            ports.spawn(grpc::serve(listener, front, drain.clone(), grpc_age));
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
        if let Some(snapshots) = &state.snapshots {
            snapshots.note_shares(Some(state.quotas.until()));
        }
        end_admin.begin();
        while operators.join_next().await.is_some() {}
        state.traces.clone().flush(FLUSH.min(state.last)).await;
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
