//! Connections of clients: accepted, bounded in what they may do, and ended in order.

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

use crate::counts::Counts;
use crate::headers::Peer;
use crate::proxy::Proxy;
use crate::response_body::ResponseBody;
use crate::wire::{ClientIo, Wire};

/// How long the head of a request may take, the time before its first byte included, and TLS before it.
const HEAD: Duration = Duration::from_secs(30);
/// How long a client may read nothing of what is sent.
const STALL: Duration = Duration::from_secs(60);
/// The largest head of a request.
const LARGEST_HEAD: usize = 64 * 1024;

type Limited = HttpLimit<Proxy, FileLimits>;
type Stack = Estimated<Limited>;

/// The services of requests, limits first.
#[derive(Clone)]
struct Stacks {
    http1: Stack,
    /// A stream that is not read stalls by itself. In HTTP/1 the connection does, which [`ClientIo`] sees at no cost for others.
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
    counts: Arc<Counts>,
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

    /// Serves until it stops.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        graceful: Arc<GracefulShutdown>,
        stop: Drain,
    ) {
        while let Some(accepted) = stop.unless_begun(listener.accept()).await {
            let Ok((stream, peer)) = accepted else {
                // Out of descriptors, mostly: others may end meanwhile.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let Some(place) = Place::enter(&self.counts, self.most) else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (this, watcher) = (self.clone(), graceful.watcher());
            tokio::spawn(async move {
                this.accepted(stream, peer, watcher).await;
                drop(place);
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
        let front = Front {
            stacks: self.stacks,
            peer: Arc::new(peer),
            wire: Arc::clone(&wire),
        };
        let io = TokioIo::new(ClientIo::new(io, wire, self.counts, STALL));
        let connection = self.builder.serve_connection_with_upgrades(io, front);
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

/// A connection that is counted.
struct Place(Arc<Counts>);

impl Place {
    fn enter(counts: &Arc<Counts>, most: i64) -> Option<Self> {
        let before = counts.connections.fetch_add(1, Ordering::Relaxed);
        let place = Self(Arc::clone(counts));
        (before < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves the requests of one connection.
struct Front {
    stacks: Stacks,
    peer: Arc<Peer>,
    wire: Arc<Wire>,
}

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = Response<Served>;
    type Error = Infallible;
    type Future = Serving;

    fn call(&self, mut request: Request<Incoming>) -> Serving {
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
        Serving {
            call: stack.clone().call(request),
            wire,
        }
    }
}

pin_project! {
    /// A request that is being served.
    struct Serving {
        #[pin]
        call: EstimatedFuture<Limited, Incoming>,
        wire: Option<Arc<Wire>>,
    }
}

impl Future for Serving {
    type Output = Result<Response<Served>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.call.poll(cx))?;
        let wire = this.wire.take();
        if let Some(wire) = &wire
            && response.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            wire.through();
        }
        Poll::Ready(Ok(response.map(|body| Served {
            body,
            _end: End(wire),
        })))
    }
}

pin_project! {
    /// The body of an answer, as hyper sends it.
    struct Served {
        #[pin]
        body: LimitBody<ResponseBody, FileLimits>,
        _end: End,
    }
}

/// Says when a body has ended.
struct End(Option<Arc<Wire>>);

impl Drop for End {
    fn drop(&mut self) {
        if let Some(wire) = &self.0 {
            wire.end();
        }
    }
}

impl Body for Served {
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
