//! The connection to the store: established on first use, shared by all callers, and re-established when it breaks.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use plimsoll::{Clock, Moment};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, ProtocolVersion, RedisError};
use tokio::sync::Mutex;

use crate::health::Health;
use crate::{StoreError, StoreErrorKind};

/// The client of the store.
enum Target {
    Single(Box<Client>),
    #[cfg(feature = "cluster")]
    Cluster(Box<redis::cluster::ClusterClient>),
}

/// A multiplexed connection: concurrent calls are pipelined.
#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    #[cfg(feature = "cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

pub(crate) struct Link {
    target: Target,
    health: Arc<Health>,
    /// The connection and its number, with which a caller that finds it broken drops this connection and not a newer one.
    current: RwLock<Option<(u32, Connection)>>,
    /// Held while connecting.
    connecting: Arc<Mutex<Attempts>>,
    /// The number of failed attempts to connect.
    failed: AtomicU32,
    /// The number of consecutive calls that timed out.
    silent: AtomicU32,
    /// The moment at which a connection was last dropped because its server was a replica.
    demoted: std::sync::Mutex<Option<Moment>>,
}

/// The results of attempts to connect.
#[derive(Default)]
struct Attempts {
    /// The number of the last connection.
    number: u32,
    /// The error of the last attempt, if it failed.
    error: Option<RedisError>,
}

/// Timeout for connecting. It may exceed the deadline of a call: the attempt continues after the caller has timed out.
const CONNECTING: Duration = Duration::from_secs(5);

/// Minimum time between two drops of a connection to a replica: the address may lead to nothing else.
const DEMOTED: Duration = Duration::from_millis(100);

/// A connection is considered dead after this many consecutive calls without an answer.
const SILENT: u32 = 16;

/// Maximum number of redirections for a slot that moves. A redirected call was not executed, so nothing is charged twice.
#[cfg(feature = "cluster")]
const MOVES: u32 = 3;

impl Link {
    fn to(target: Target, health: Arc<Health>) -> Self {
        Self {
            target,
            health,
            current: RwLock::new(None),
            connecting: Arc::default(),
            failed: AtomicU32::new(0),
            silent: AtomicU32::new(0),
            demoted: std::sync::Mutex::default(),
        }
    }

    pub(crate) fn single(url: &str, health: Arc<Health>) -> Result<Self, StoreError> {
        let info = url
            .into_connection_info()
            .map_err(StoreError::bad_address)?;
        // The address may select another protocol.
        let info = if url.contains("protocol=") {
            info
        } else {
            let settings = info.redis_settings().clone();
            info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3))
        };
        provide_cryptography(url);
        let client = Client::open(info).map_err(StoreError::bad_address)?;
        Ok(Self::to(Target::Single(Box::new(client)), health))
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn cluster(urls: &[String], health: Arc<Health>) -> Result<Self, StoreError> {
        urls.iter().for_each(|url| provide_cryptography(url));
        // The client must not repeat a call whose outcome is unknown, so it never retries.
        let client = redis::cluster::ClusterClientBuilder::new(urls.iter().map(String::as_str))
            .retries(0)
            .use_protocol(ProtocolVersion::RESP3)
            .connection_timeout(CONNECTING)
            .build()
            .map_err(StoreError::bad_address)?;
        Ok(Self::to(Target::Cluster(Box::new(client)), health))
    }

    /// Sends a command, once.
    pub(crate) async fn send(self: &Arc<Self>, command: &Cmd) -> Result<redis::Value, StoreError> {
        let (number, mut connection) = self.connection().await?;
        let began = self.health.now();
        let answer = connection.send(command).await;
        self.health.took(self.health.now().since(began));
        match &answer {
            Err(error) if error.is_unrecoverable_error() => self.forget(number),
            _ => self.silent.store(0, Ordering::Relaxed),
        }
        let answer = answer.map_err(StoreError::from);
        if answer.as_ref().is_err_and(StoreError::is_replica) {
            self.leave_replica(number);
        }
        answer
    }

    /// Drops a connection whose server is no longer the primary. The address may lead to the new primary, but an open connection stays
    /// with the old server.
    fn leave_replica(&self, number: u32) {
        let now = Clock::system().precise_now();
        let mut demoted = self.demoted.lock().unwrap_or_else(PoisonError::into_inner);
        if demoted.is_none_or(|last| now.since(last) >= DEMOTED) {
            *demoted = Some(now);
            drop(demoted);
            self.forget(number);
        }
    }

    /// Reads the eviction policy of the server.
    async fn check_memory(self: Arc<Self>, mut connection: Connection) {
        let mut command = Cmd::new();
        command.arg("INFO").arg("memory");
        let answer = tokio::time::timeout(CONNECTING, connection.send(&command)).await;
        // The command may be forbidden, or unknown to the server.
        if let Ok(Ok(answer)) = answer {
            let mut texts = Vec::new();
            gather(&answer, &mut texts);
            self.health.memory(&texts);
        }
    }

    /// Records that a call timed out.
    pub(crate) fn unanswered(&self) {
        if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT {
            self.hang_up();
        }
    }

    /// Drops the connection. The next call connects again.
    pub(crate) fn hang_up(&self) {
        self.silent.store(0, Ordering::Relaxed);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn forget(&self, number: u32) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.take_if(|(known, _)| *known == number);
    }

    fn current(&self) -> Option<(u32, Connection)> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    async fn connection(self: &Arc<Self>) -> Result<(u32, Connection), StoreError> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let failed = self.failed.load(Ordering::Relaxed);
        let mut attempts = Arc::clone(&self.connecting).lock_owned().await;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        // Callers that waited for a failed attempt share its error, so that they do not all connect one by one.
        if failed != self.failed.load(Ordering::Relaxed) {
            return Err(attempts.error());
        }
        let link = Arc::clone(self);
        let connecting = tokio::spawn(async move {
            let answer = tokio::time::timeout(CONNECTING, link.target.connect()).await;
            match answer {
                Ok(Ok(connection)) => {
                    attempts.number = attempts.number.wrapping_add(1);
                    let connected = (attempts.number, connection);
                    let mut current = link.current.write().unwrap_or_else(PoisonError::into_inner);
                    *current = Some(connected.clone());
                    drop(current);
                    link.health.connected();
                    tokio::spawn(Arc::clone(&link).check_memory(connected.1.clone()));
                    Ok(connected)
                }
                failure => {
                    attempts.error = failure.ok().and_then(Result::err);
                    link.failed.fetch_add(1, Ordering::Relaxed);
                    // The caller may have timed out, so the cause is reported here.
                    link.health.failed(&attempts.error());
                    Err(attempts.error())
                }
            }
        });
        match connecting.await {
            Ok(connected) => connected,
            // The runtime is shutting down.
            Err(_) => Err(StoreError::new(StoreErrorKind::Unreachable)),
        }
    }
}

/// Installs a default rustls provider if the address needs TLS: the client panics if the program has installed none.
fn provide_cryptography(url: &str) {
    #[cfg(feature = "tls")]
    if url.starts_with("rediss:") && rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    #[cfg(not(feature = "tls"))]
    let _ = url;
}

impl Attempts {
    fn error(&self) -> StoreError {
        match &self.error {
            Some(error) => error.clone().into(),
            None => StoreError::new(StoreErrorKind::Unreachable),
        }
    }
}

impl Target {
    async fn connect(&self) -> Result<Connection, RedisError> {
        match self {
            Self::Single(client) => {
                // The store enforces the deadline of each call.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(None)
                    .set_response_timeout(None);
                let connection = client.get_multiplexed_async_connection_with_config(&config);
                Ok(Connection::Single(connection.await?))
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(client) => Ok(Connection::Cluster(client.get_async_connection().await?)),
        }
    }
}

impl Connection {
    async fn send(&mut self, command: &Cmd) -> Result<redis::Value, RedisError> {
        match self {
            Self::Single(connection) => command.query_async(connection).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(connection) => follow(connection, command).await,
        }
    }
}

/// Collects all strings of a reply, which in a cluster contains the replies of all nodes.
fn gather(answer: &redis::Value, texts: &mut Vec<String>) {
    use redis::Value;

    match answer {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => texts.push(text.clone()),
        Value::Array(parts) => parts.iter().for_each(|part| gather(part, texts)),
        Value::Map(parts) => parts.iter().for_each(|(_, part)| gather(part, texts)),
        _ => {}
    }
}

#[cfg(feature = "cluster")]
async fn follow(
    connection: &mut redis::cluster_async::ClusterConnection,
    command: &Cmd,
) -> Result<redis::Value, RedisError> {
    use redis::{ErrorKind, ServerErrorKind};

    let mut moves = 0;
    loop {
        match command.query_async(connection).await {
            Err(error)
                if moves < MOVES && error.kind() == ErrorKind::Server(ServerErrorKind::Moved) =>
            {
                moves += 1;
            }
            answer => return answer,
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hides the address, which may contain a password.
        f.debug_struct("Link")
            .field("connected", &self.current().is_some())
            .finish_non_exhaustive()
    }
}
