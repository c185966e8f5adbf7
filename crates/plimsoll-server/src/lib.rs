#![doc = include_str!("../README.md")]

mod admin;
mod api;
mod body;
mod envoy;
mod grpc;
mod grpc_call;
mod leases;
mod quota;
mod resp;
mod settings;
mod snapshot;
mod snapshot_task;
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

/// The limits that are served when no file is set.
const DEFAULT: &str = include_str!("default.yaml");
/// Maximum number of leases over HTTP.
const MAX_LEASES: usize = 1_000_000;
/// Maximum number of `CL.THROTTLE` keys for each combination of burst, count and period.
const MAX_THROTTLE_KEYS: usize = 10_000_000;
/// Default interval between two snapshots.
const STATE_EVERY: Duration = Duration::from_secs(30);
/// Default maximum age of a gRPC connection, the same as in Envoy's reference server.
const GRPC_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Timeout for exporting the last traces at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that is bound to its ports and serves them in [`run`](Self::run).
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
    /// Reads the file of limits, restores the last snapshot and binds all ports.
    ///
    /// # Errors
    ///
    /// If the file, the snapshot directory or another setting is invalid, or a port cannot be bound.
    pub async fn start(mut settings: Settings) -> Result<Self, StartError> {
        let traces = Traces::new(settings.otlp.as_deref()).map_err(StartError::Otlp)?;
        // Ports are bound first: clients can connect while the state is loaded, and a bind error costs no load.
        let mut sockets = Sockets::from_env().map_err(StartError::Sockets)?;
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
        if let Some(name) = sockets.unused() {
            return Err(StartError::Socket(name.to_owned()));
        }
        let config = match &settings.file {
            Some(file) => Config::from_file(file)?,
            None => Config::from_str("the default limits", DEFAULT, Format::Yaml)?,
        };
        settings.fill(config.serve());
        let clock = Clock::system();
        let (snapshots, restarted, snapshot) = match &settings.state_dir {
            // Without a directory, an earlier server must be assumed.
            None => (None, true, None),
            Some(directory) => {
                let failed = |error| StartError::State(directory.clone(), error);
                let snapshots = Snapshots::open(directory).map_err(failed)?;
                let now = clock.precise_now();
                let restarted = snapshots.shares_may_last(now);
                let snapshot = snapshots.read(now).map_err(failed)?;
                snapshots.note_shares(None);
                (Some(snapshots), restarted, snapshot)
            }
        };
        let heads = snapshot
            .as_ref()
            .map_or(&[][..], |snapshot| &snapshot.limits);
        let limits = Limits::of(config.build_saved(&clock, heads)?);
        let parametric = Parametric::new(clock.clone(), MAX_THROTTLE_KEYS);
        let envoy = Envoy::new(settings.envoy, &clock)?;
        if let (Some(snapshot), Some(directory)) = (snapshot, settings.state_dir) {
            let age = snapshot.age;
            envoy.add_saved_windows(&snapshot.envoy);
            let restored = snapshot.restore(&limits, envoy.limits(), &parametric);
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
            drain_timeout: settings.drain,
            head_timeout: settings.head_timeout,
            leases: Leases::new(MAX_LEASES),
            connections: Places::new(settings.max_connections),
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

    /// The limits that the server enforces.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.state.limits
    }

    /// The bound addresses of the HTTP, RESP, gRPC and admin ports, in this order. `None` for a port that is closed.
    #[must_use]
    pub fn addresses(&self) -> [Option<SocketAddr>; 4] {
        let address = |listener: &Option<TcpListener>| listener.as_ref()?.local_addr().ok();
        [&self.http, &self.resp, &self.grpc, &self.admin].map(address)
    }

    /// Serves until `stop` is ready. Then the server accepts no new connections, and requests in progress have
    /// [`Settings::drain`] to finish.
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
        let service = envoy::RateLimitService::new(&state, &envoy);
        let mut ports = JoinSet::new();
        if let Some(listener) = http {
            let router =
                api::router(Arc::clone(&state)).merge(envoy::http_router(&service, &drain));
            let port = api::HttpHandler::new(&state, state.traces.layer(router));
            ports.spawn(state.http_port().serve(listener, port, drain.clone()));
        }
        if let Some(listener) = grpc {
            ports.spawn(grpc::serve(listener, service, drain.clone(), grpc_age));
        }
        if let Some(listener) = resp {
            let state = Arc::clone(&state);
            ports.spawn(resp::serve(listener, state));
        }
        let mut operators = JoinSet::new();
        // The admin port closes last, so that `/readyz` and `/metrics` answer while the other ports drain.
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
        let configurations = tokio::spawn(envoy::reload_on_change(Arc::clone(&envoy)));
        let (limits, reloads) = (state.limits.clone(), state.reloads.clone());
        let replaced = limits.clone();
        let replace = move |config: &Config| replaced.replace(config);
        let reload = match file {
            Some(file) => tokio::spawn(reloads.watch(file, hangup, limits, replace)),
            None => tokio::spawn(hangup.ignore()),
        };
        let snapshots = tokio::spawn(snapshot_task::write_periodically(
            Arc::clone(&state),
            state_every,
        ));
        let watchdog = tokio::spawn(systemd::watchdog());
        systemd::ready(state.limits.names().len());
        stop.await;
        systemd::stopping(state.drain_timeout);
        tracing::info!("stopping: nothing new is accepted, and what is under way ends");
        begin.begin();
        while ports.join_next().await.is_some() {}
        snapshots.abort();
        watchdog.abort();
        snapshot_task::write(&state).await;
        if let Some(snapshots) = &state.snapshots {
            snapshots.note_shares(Some(state.quotas.until()));
        }
        end_admin.begin();
        while operators.join_next().await.is_some() {}
        state
            .traces
            .clone()
            .flush(FLUSH_TIMEOUT.min(state.drain_timeout))
            .await;
        expiry.abort();
        shares.abort();
        configurations.abort();
        reload.abort();
    }
}

/// Binds a port: takes the inherited socket of this name, or binds `address`.
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
