//! Connections to servers, and the pool of idle ones.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use plimsoll_config::gateway::Protocol;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::pool::{Endpoint, Lease};
use crate::request_body::RequestBody;
use crate::tls::bad_name;

/// The largest head of a response.
const HEAD: usize = 64 * 1024;

/// A connection to a server.
pub(crate) struct Connection {
    sender: Sender,
    /// Whether it has carried a request before.
    pub(crate) is_used: bool,
}

enum Sender {
    Http1(http1::SendRequest<RequestBody>, OnDrop),
    Http2(http2::SendRequest<RequestBody>),
}

/// Aborts the task of a connection. A connection whose response was not read to its end cannot be used again.
struct OnDrop(Option<AbortHandle>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// The error of a request without a response.
pub(crate) enum SendError {
    /// The connection was closed before the request was sent. The request is unchanged.
    NotSent(Box<Request<RequestBody>>),
    Failed(hyper::Error),
}

impl Connection {
    /// Connects to a server.
    pub(crate) async fn dial(lease: &Lease, is_upgrade: bool) -> io::Result<Self> {
        let origin = &lease.endpoint.origin;
        let stream = TcpStream::connect((origin.host.as_str(), origin.port)).await?;
        stream.set_nodelay(true)?;
        let protocol = match is_upgrade {
            true => Protocol::Http1,
            false => lease.pool.protocol,
        };
        let Some(tls) = lease.pool.tls.as_ref().filter(|_| origin.tls) else {
            return Self::handshake(stream, protocol).await;
        };
        let tls = if is_upgrade { &tls.http1 } else { &tls.usual };
        let name = ServerName::try_from(origin.host.clone()).map_err(|_| bad_name(&origin.host))?;
        Self::handshake(tls.connect(name, stream).await?, protocol).await
    }

    async fn handshake<I>(io: I, protocol: Protocol) -> io::Result<Self>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let io = TokioIo::new(io);
        let sender = match protocol {
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder
                    .timer(TokioTimer::new())
                    .keep_alive_interval(Duration::from_secs(30))
                    .max_header_list_size(u32::try_from(HEAD).unwrap_or(u32::MAX))
                    .initial_stream_window_size(1 << 20)
                    .initial_connection_window_size(4 << 20);
                let (sender, connection) = builder.handshake(io).await.map_err(io::Error::other)?;
                tokio::spawn(async move {
                    let _ = connection.await;
                });
                Sender::Http2(sender)
            }
            _ => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(HEAD);
                let (mut sender, connection) =
                    builder.handshake(io).await.map_err(io::Error::other)?;
                let task = tokio::spawn(async move {
                    let _ = connection.with_upgrades().await;
                });
                let task = OnDrop(Some(task.abort_handle()));
                sender.ready().await.map_err(io::Error::other)?;
                Sender::Http1(sender, task)
            }
        };
        Ok(Self {
            sender,
            is_used: false,
        })
    }

    pub(crate) const fn is_http1(&self) -> bool {
        matches!(self.sender, Sender::Http1(..))
    }

    /// Sends a request, and returns its response. The body has not been read yet.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendError> {
        let sent = match &mut self.sender {
            Sender::Http1(sender, _) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::NotSent(Box::new(request)),
            None => SendError::Failed(error.into_error()),
        })
    }

    /// Leaves the connection to the protocol that it was upgraded to.
    pub(crate) fn detach(mut self) {
        if let Sender::Http1(_, task) = &mut self.sender {
            task.0 = None;
        }
    }

    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender, _) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender, _) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    async fn ready(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(sender, _) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }
}

/// The idle connections of one worker, by server.
#[derive(Default)]
pub(crate) struct Idle(Mutex<HashMap<usize, Vec<Connection>>>);

impl Idle {
    /// Takes an idle connection to this server, if there is one.
    pub(crate) fn take(&self, endpoint: &Endpoint) -> Option<Connection> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = idle.get_mut(&endpoint.id)?;
        // The most recently used first: its server is the least likely to have closed it.
        while let Some(connection) = all.pop() {
            if connection.is_closed() || !connection.is_ready() {
                continue;
            }
            // Requests share one connection of HTTP/2.
            if let Sender::Http2(sender) = &connection.sender {
                let sender = Sender::Http2(sender.clone());
                all.push(connection);
                return Some(Connection {
                    sender,
                    is_used: true,
                });
            }
            return Some(connection);
        }
        None
    }

    /// Shares a new connection of HTTP/2 with other requests at once, because its responses may last for long.
    pub(crate) fn share(&self, connection: &Connection, lease: &Lease) {
        if let Sender::Http2(sender) = &connection.sender {
            let shared = Connection {
                sender: Sender::Http2(sender.clone()),
                is_used: true,
            };
            self.keep(shared, lease.endpoint.id, lease.pool.keep);
        }
    }

    /// Returns a connection whose response has ended.
    pub(crate) fn put(self: &Arc<Self>, mut connection: Connection, lease: &Lease) {
        connection.is_used = true;
        if connection.is_closed() || !connection.is_http1() {
            return;
        }
        if connection.is_ready() {
            return self.keep(connection, lease.endpoint.id, lease.pool.keep);
        }
        // The response has ended before the request was sent in full.
        let (idle, id, keep, longest) = (
            Arc::clone(self),
            lease.endpoint.id,
            lease.pool.keep,
            lease.pool.idle,
        );
        tokio::spawn(async move {
            if let Ok(true) = tokio::time::timeout(longest, connection.ready()).await {
                idle.keep(connection, id, keep);
            }
        });
    }

    fn keep(&self, connection: Connection, id: usize, keep: usize) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = idle.entry(id).or_default();
        if !connection.is_http1() {
            all.retain(|it| !it.is_closed());
        }
        if all.len() >= keep {
            all.retain(|it| !it.is_closed());
        }
        if all.len() < keep {
            all.push(connection);
        }
    }

    /// Closes connections to servers that are gone.
    pub(crate) fn retain(&self, known: impl Fn(usize) -> bool) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|id, _| known(*id));
    }
}
