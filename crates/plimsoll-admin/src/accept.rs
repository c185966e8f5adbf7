//! HTTP connections: accepted, bounded in what they may do, and ended in order.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use http::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use plimsoll_tower::keys::PeerAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tower_service::Service;

use crate::drain::{Drain, Places};
use crate::streams::Streams;

/// How a client begins that speaks HTTP/2.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How old connections become.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// After this time, ten per cent more or less, a connection takes no new requests, so that clients spread anew.
    pub most: Duration,
    /// How long requests that are under way may take then.
    pub grace: Duration,
}

/// A port that speaks HTTP/1.1 and HTTP/2.
#[derive(Clone, Debug)]
pub struct HttpPort {
    head: Duration,
    last: Duration,
    connections: Places,
    age: Option<Age>,
    /// How long the body of a request may take.
    body: Duration,
}

impl HttpPort {
    /// The head of a request may take as long as `head`, and so may its body; what is under way when the port is closed as long
    /// as `last`.
    #[must_use]
    pub const fn new(head: Duration, last: Duration, connections: Places) -> Self {
        Self {
            head,
            last,
            connections,
            age: None,
            body: head,
        }
    }

    /// Bodies of requests may take as long as they like: they are streams.
    #[must_use]
    pub const fn streams(mut self) -> Self {
        self.body = Duration::MAX;
        self
    }

    /// How old its connections become: as old as they like unless set.
    #[must_use]
    pub const fn age(mut self, age: Age) -> Self {
        self.age = Some(age);
        self
    }

    /// Serves requests until `drain` begins and what is under way has ended.
    pub async fn serve(self, listener: TcpListener, answers: impl Answers, drain: Drain) {
        let Self {
            head,
            last,
            connections,
            age,
            body: within,
        } = self;
        // Nothing is sent: it is closed when the last connection has ended.
        let (open, mut all_ended) = mpsc::channel::<()>(1);
        while let Some(accepted) = drain.unless_begun(listener.accept()).await {
            let Ok((stream, peer)) = accepted else {
                // Out of descriptors, mostly: others may end meanwhile.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let Some(place) = connections.enter() else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            let answers = answers.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answers = answers.clone();
                let request = request.map(|body| Arriving::new(body, within));
                async move { Ok::<_, Infallible>(answers.answer(request, peer).await) }
            });
            let (open, drain) = (open.clone(), drain.clone());
            tokio::spawn(async move {
                let _until_ended = (place, open);
                let begun = drain.unless_begun(tokio::time::timeout(head, begun(&stream)));
                if !matches!(begun.await, Some(Ok(true))) {
                    return;
                }
                let streams = Streams::default();
                let builder = builder(head, streams.clone());
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                let mut connection = pin!(connection);
                let grace = tokio::select! {
                    _ = streams.serve(connection.as_mut()) => return,
                    () = drain.begun() => last,
                    grace = aged(age) => grace,
                };
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(grace, streams.serve(connection)).await;
            });
        }
        drop(open);
        let _ = tokio::time::timeout(last, all_ended.recv()).await;
    }
}

/// What answers the requests of a port.
pub trait Answers: Clone + Send + Sync + 'static {
    /// Answers one request of the client with this address.
    fn answer(
        &self,
        request: Request<Arriving>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response> + Send;
}

impl Answers for Router {
    async fn answer(&self, request: Request<Arriving>, peer: SocketAddr) -> Response {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(PeerAddr(peer));
        match self.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// The body of a request, which must come within a time.
#[derive(Debug)]
pub struct Arriving {
    body: Incoming,
    within: Duration,
    /// When it is too late, from when on something was waited for.
    late: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    const fn new(body: Incoming, within: Duration) -> Self {
        Self {
            body,
            within,
            late: None,
        }
    }
}

impl hyper::body::Body for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(frame.map(|it| it.map_err(Into::into)));
        }
        let within = this.within;
        let late = this
            .late
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        late.as_mut().poll(context).map(|()| {
            Some(Err(
                format!("the body did not come within {within:?}").into()
            ))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waits until a client has said so much that it is known what it speaks: whoever reads on from here waits for that without
/// a bound. False if it has left.
async fn begun(stream: &TcpStream) -> bool {
    let mut seen = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut seen).await {
            Ok(0) | Err(_) => return false,
            Ok(length) if length == seen.len() || seen[..length] != PREFACE[..length] => {
                return true;
            }
            // What is there already is seen at once the next time.
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Returns when a connection is old enough to end.
async fn aged(age: Option<Age>) -> Duration {
    let Some(Age { most, grace }) = age else {
        return std::future::pending().await;
    };
    let mut byte = [128];
    // Without randomness all become equally old.
    let _ = getrandom::fill(&mut byte);
    let part = 0.9 + f64::from(byte[0]) / 255.0 * 0.2;
    tokio::time::sleep(most.mul_f64(part)).await;
    grace
}

fn builder(head: Duration, streams: Streams) -> Builder<Streams> {
    let mut builder = Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(64 * 1024)
        // Answers are small: head and body are one buffer, and so one write of one piece.
        .writev(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(1024)
        .max_header_list_size(16 * 1024)
        .max_pending_accept_reset_streams(Some(64));
    builder
}
