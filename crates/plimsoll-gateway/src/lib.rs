#![doc = include_str!("../README.md")]

mod accept;
mod admin;
mod budget;
mod connection;
mod counts;
mod fault;
mod headers;
mod health;
mod idle_timeout;
mod outgoing;
mod pool;
mod proxy;
mod reload;
mod request_body;
mod response_body;
mod scan;
mod start;
mod table;
mod tls;
mod tokens;
mod tunnel;
mod wire;
mod worker;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use plimsoll::Clock;
use plimsoll_admin::{Admin, Begin, Hangup, HttpPort, Places, Reloads, systemd};
use plimsoll_config::Config;
use plimsoll_config::gateway::GatewaySpec;
use plimsoll_engine::Limits;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub use counts::GatewayCounts;
pub use start::{Settings, StartError};
pub use tls::TlsError;

use crate::admin::GatewayProgram;
use crate::connection::Idle;
use crate::reload::Reload;
use crate::table::Table;
use crate::worker::Worker;

/// The time-out for the head of a request on the admin port.
const ADMIN_HEAD: Duration = Duration::from_secs(10);
/// The largest number of connections to the admin port.
const OPERATORS: usize = 256;

/// A gateway: a reverse proxy that admits requests by the limits of a file.
///
/// [`start`](Self::start) binds its ports; [`run`](Self::run) serves until a future is ready.
///
/// ```no_run
/// use plimsoll_gateway::{Gateway, Settings};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let mut settings = Settings::default();
/// settings.file = Some("gateway.yaml".into());
/// let gateway = Gateway::start(&settings)?;
/// for address in gateway.addresses() {
///     println!("listening on {address}");
/// }
/// gateway.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Gateway {
    limits: Limits,
    table: Arc<ArcSwap<Table>>,
    counts: Arc<GatewayCounts>,
    listeners: Vec<TcpListener>,
    admin: Option<TcpListener>,
    admin_token: Option<String>,
    tls: Option<TlsAcceptor>,
    workers: usize,
    file: Option<PathBuf>,
    follows_file: bool,
    drain: Duration,
}

impl Gateway {
    /// Reads the file of the settings, and binds the ports. With a file, [`run`](Self::run) reloads it when it changes.
    ///
    /// # Errors
    ///
    /// If the file or a certificate is invalid, or an address cannot be bound.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        let (config, spec) = settings.read()?;
        let mut gateway = Self::new(&config, &spec, settings)?;
        gateway.follows_file = settings.to.is_none();
        gateway.file.clone_from(&settings.file);
        Ok(gateway)
    }

    /// Binds the ports, with a configuration that has been read already. [`Settings::file`] and [`Settings::to`] are ignored.
    ///
    /// ```
    /// use plimsoll_config::{Config, Format};
    /// use plimsoll_gateway::{Gateway, Settings};
    ///
    /// let text = "
    /// gateway: { listen: 127.0.0.1:0, upstreams: { app: { to: http://127.0.0.1:9000 } } }
    /// limits: { slots: { concurrency: 100 } }
    /// routes: [{ match: /**, limits: [slots] }]
    /// ";
    /// let config = Config::from_str("gateway.yaml", text, Format::Yaml)?;
    /// let gateway = Gateway::with_config(&config, &Settings::default())?;
    /// assert_eq!(gateway.limits().names(), ["slots"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the configuration has no `gateway` section, a certificate is invalid, or an address cannot be bound.
    pub fn with_config(config: &Config, settings: &Settings) -> Result<Self, StartError> {
        let spec = config.gateway().ok_or(StartError::NoServer)?;
        Self::new(config, spec, settings)
    }

    fn new(config: &Config, spec: &GatewaySpec, settings: &Settings) -> Result<Self, StartError> {
        let tls = spec.tls.as_ref().map(tls::acceptor).transpose()?;
        let table = Table::new(spec, config, None)?;
        let limits = Limits::new(config, &Clock::system())?;
        let addresses = match settings.listen {
            Some(address) => vec![address],
            None => spec
                .listen
                .as_slice()
                .iter()
                .map(|address| address.0)
                .collect(),
        };
        let listeners = addresses
            .into_iter()
            .map(|address| listen(address).map_err(|error| StartError::Listen(address, error)));
        let listeners = listeners.collect::<Result<_, _>>()?;
        let admin = match settings.admin {
            Some(address) if !address.ip().is_loopback() && settings.admin_token.is_none() => {
                return Err(StartError::OpenAdmin(address));
            }
            address => address,
        };
        let admin = admin.map(|address| {
            listen(address).map_err(|error| StartError::ListenAdmin(address, error))
        });
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = spec.workers.and_then(|count| usize::try_from(count.0).ok());
        Ok(Self {
            limits,
            table: Arc::new(ArcSwap::from_pointee(table)),
            counts: Arc::default(),
            listeners,
            admin: admin.transpose()?,
            admin_token: settings.admin_token.clone(),
            tls,
            workers: workers.unwrap_or_else(processors),
            follows_file: false,
            file: None,
            drain: settings.drain,
        })
    }

    /// The addresses on which the gateway listens.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
    }

    /// The address of the admin port, if it has one.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.local_addr().ok()
    }

    /// The limits of its file.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The counters of the gateway.
    #[must_use]
    pub const fn counts(&self) -> &Arc<GatewayCounts> {
        &self.counts
    }

    /// Serves until `stop` is ready, then drains: the gateway accepts no more connections, and open requests have
    /// [`Settings::drain`] to end.
    ///
    /// Connections are served by worker threads. Each worker has connections to servers of its own.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub async fn run(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let (begin, drain) = Begin::new();
        // From here on SIGHUP does not end the process.
        let hangup = Hangup::new();
        let mut ended = Vec::new();
        let mut idle = Vec::new();
        for number in 0..self.workers {
            let listeners = self.listeners.iter().map(TcpListener::try_clone);
            let worker = Worker {
                limits: self.limits.clone(),
                table: Arc::clone(&self.table),
                counts: Arc::clone(&self.counts),
                idle: Arc::<Idle>::default(),
                tls: self.tls.clone(),
                listeners: listeners.collect::<io::Result<_>>()?,
                stop: drain.clone(),
                drain: self.drain,
            };
            idle.push(Arc::clone(&worker.idle));
            ended.push(worker.spawn(number)?);
        }
        // Only the workers own listeners: when they stop, the system refuses connections that were not accepted.
        drop(self.listeners);
        let reloads = Reloads::default();
        // The admin port stays open while the workers drain, so that `/readyz` can be asked.
        let (end_admin, admin_drain) = Begin::new();
        let mut operators = JoinSet::new();
        if let Some(listener) = self.admin {
            let served = Arc::new(GatewayProgram {
                counts: self.counts,
                table: Arc::clone(&self.table),
            });
            let admin = Admin::new(self.limits.clone(), reloads.clone(), drain, served);
            let router = admin.token(self.admin_token).router();
            let port = HttpPort::new(ADMIN_HEAD, self.drain, Places::new(OPERATORS));
            let listener = tokio::net::TcpListener::from_std(listener)?;
            operators.spawn(port.serve(listener, router, admin_drain));
        }
        let reload = Reload {
            limits: self.limits.clone(),
            table: self.table,
            idle,
            pools: self.follows_file,
        };
        let replace = move |config: &Config| reload.replace(config);
        let limits = self.limits.clone();
        let reload = match self.file {
            Some(file) => tokio::spawn(reloads.watch(file, hangup, limits, replace)),
            None => tokio::spawn(hangup.ignore()),
        };
        let watchdog = tokio::spawn(systemd::watchdog());
        systemd::ready(self.limits.names().len());
        stop.await;
        systemd::stopping(self.drain);
        begin.begin();
        for worker in ended {
            let _ = worker.await;
        }
        end_admin.begin();
        while operators.join_next().await.is_some() {}
        reload.abort();
        watchdog.abort();
        Ok(())
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("limits", &self.limits)
            .field("table", &self.table)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}
