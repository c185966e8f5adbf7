//! Accepts client connections, with time-outs and bounds, and shuts them down gracefully.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use pin_project_lite::pin_project;
use plimsoll_admin::Drain;
use plimsoll_engine::{FileLimits, Limits};
use plimsoll_tower::json::{Estimated, EstimatedFuture};
use plimsoll_tower::keys::PeerAddr;
use plimsoll_tower::{HttpLimit, LimitBody};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower_layer::Layer;
use tower_service::Service;

use crate::counts::GatewayCounts;
use crate::headers::Peer;
use crate::proxy::Proxy;
use crate::response_body::ResponseBody;
use crate::wire::{ClientIo, Wire};

/// The time-out for the head of a request, including the time before its first byte; and for the TLS handshake.
const HEAD: Duration = Duration::from_secs(30);
/// The time-out for a client that reads nothing of a response.
const STALL: Duration = Duration::from_secs(60);
/// The largest head of a request.
const LARGEST_HEAD: usize = 64 * 1024;

type Limited = HttpLimit<Proxy, FileLimits>;
type Stack = Estimated<Limited>;

/// The services for requests: body layer, limit layer, proxy.
#[derive(Clone)]
struct Stacks {
    http1: Stack,
    /// The services with a time-out for streams that are not read. In HTTP/1, [`ClientIo`] detects a connection that is not read.
    http2: Stack,
}

impl Stacks {
    fn new(limits: &Limits, proxy: Proxy) -> Self {
        let bodies = limits.body_layer();
        Self {
            http1: bodies.layer(limits.layer().layer(proxy.clone())),
            http2: bodies.layer(limits.layer().stall_timeout(STALL).layer(proxy)),
        }
    }
}

/// Accepts connections on one worker.
#[derive(Clone)]
pub(crate) struct Accept {
    stacks: Stacks,
    builder: Arc<Builder<TokioExecutor>>,
    counts: Arc<GatewayCounts>,
    tls: Option<TlsAcceptor>,
    most: i64,
}

impl Accept {
    pub(crate) fn new(
        limits: &Limits,
        proxy: Proxy,
        tls: Option<TlsAcceptor>,
        most: usize,
    ) -> Self {
        let counts = Arc::clone(&proxy.0.counts);
        Self {
            stacks: Stacks::new(limits, proxy),
            builder: Arc::new(builder()),
            counts,
            tls,
            most: i64::try_from(most).unwrap_or(i64::MAX),
        }
    }

    /// Accepts connections until the drain begins.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        graceful: Arc<GracefulShutdown>,
        stop: Drain,
    ) {
        while let Some(accepted) = stop.unless_begun(listener.accept()).await {
            let Ok((stream, peer)) = accepted else {
                // Most often the process is out of descriptors: connections may end meanwhile.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let Some(guard) = ConnectionGuard::enter(&self.counts, self.most) else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (this, watcher) = (self.clone(), graceful.watcher());
            tokio::spawn(async move {
                this.accepted(stream, peer, watcher).await;
                drop(guard);
            });
        }
    }

    async fn accepted(self, stream: TcpStream, peer: SocketAddr, watcher: Watcher) {
        let Some(tls) = &self.tls else {
            return self.serve(stream, Peer::new(peer, false), watcher).await;
        };
        match tokio::time::timeout(HEAD, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream, Peer::new(peer, true), watcher).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS failed"),
            Err(_) => tracing::debug!(%peer, "TLS took too long"),
        }
    }

    async fn serve<I>(self, io: I, peer: Peer, watcher: Watcher)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let address = peer.address;
        let wire = Arc::<Wire>::default();
        let service = ConnectionService {
            stacks: self.stacks,
            peer: Arc::new(peer),
            wire: Arc::clone(&wire),
        };
        let io = TokioIo::new(ClientIo::new(io, wire, self.counts, STALL));
        let connection = self.builder.serve_connection_with_upgrades(io, service);
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::debug!(peer = %address, %error, "a connection failed");
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LARGEST_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(256)
        .max_header_list_size(u32::try_from(LARGEST_HEAD).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(Some(64))
        .max_local_error_reset_streams(Some(256))
        .initial_stream_window_size(1 << 18)
        .initial_connection_window_size(1 << 20);
    builder
}

/// Counts a client connection until it is dropped.
struct ConnectionGuard(Arc<GatewayCounts>);

impl ConnectionGuard {
    fn enter(counts: &Arc<GatewayCounts>, most: i64) -> Option<Self> {
        let before = counts.connections.fetch_add(1, Ordering::Relaxed);
        let guard = Self(Arc::clone(counts));
        (before < most).then_some(guard)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves the requests of one connection.
struct ConnectionService {
    stacks: Stacks,
    peer: Arc<Peer>,
    wire: Arc<Wire>,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, mut request: Request<Incoming>) -> ResponseFuture {
        let is_http1 = request.version() < Version::HTTP_2;
        let extensions = request.extensions_mut();
        extensions.insert(PeerAddr(self.peer.address));
        extensions.insert(Arc::clone(&self.peer));
        let wire = is_http1.then(|| Arc::clone(&self.wire));
        if let Some(wire) = &wire {
            wire.begin();
            if request.version() == Version::HTTP_11 {
                request.extensions_mut().insert(Arc::clone(wire));
            }
        }
        let stack = match is_http1 {
            true => &self.stacks.http1,
            false => &self.stacks.http2,
        };
        ResponseFuture {
            call: stack.clone().call(request),
            wire,
        }
    }
}

pin_project! {
    /// The response of a request.
    struct ResponseFuture {
        #[pin]
        call: EstimatedFuture<Limited, Incoming>,
        wire: Option<Arc<Wire>>,
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.call.poll(cx))?;
        let wire = this.wire.take();
        if let Some(wire) = &wire
            && response.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            wire.upgraded();
        }
        Poll::Ready(Ok(response.map(|body| TrackedBody {
            body,
            _end: EndGuard(wire),
        })))
    }
}

pin_project! {
    /// The body of a response, which reports its end to the connection.
    struct TrackedBody {
        #[pin]
        body: LimitBody<ResponseBody, FileLimits>,
        _end: EndGuard,
    }
}

/// Reports the end of a body to the connection.
struct EndGuard(Option<Arc<Wire>>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(wire) = &self.0 {
            wire.end();
        }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
