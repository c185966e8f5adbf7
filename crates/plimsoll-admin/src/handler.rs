//! What answers the requests of a port, and the bodies of requests it is handed.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{HeaderName, Method, Request};
use httparse::Header;
use hyper::body::{Frame, Incoming, SizeHint};
use plimsoll_tower::keys::PeerAddr;
use tokio::time::Sleep;
use tower_service::Service;

/// Answers the requests of an [`HttpPort`](crate::HttpPort). An axum [`Router`] is one.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Answers one request of the client with this address.
    fn handle(
        &self,
        request: Request<TimedBody>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response> + Send;

    /// Fast path: answers a request over HTTP/1.1 that lies in the read buffer from its first byte to its last. The connection is
    /// not read until the response is there, so a handler returns `None` for a request that may wait. The status of the response is one
    /// that has a body.
    ///
    /// `None` passes the request, and everything that follows it on its connection, to [`handle`](Self::handle).
    fn handle_buffered(
        &self,
        request: &BufferedRequest<'_>,
    ) -> impl Future<Output = Option<http::Response<Bytes>>> + Send {
        let _ = request;
        std::future::ready(None)
    }
}

impl Handler for Router {
    async fn handle(&self, request: Request<TimedBody>, peer: SocketAddr) -> Response {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(PeerAddr(peer));
        match self.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// A request over HTTP/1.1 that lies in the read buffer of its connection, head and body.
#[derive(Debug)]
pub struct BufferedRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) fields: &'a [Header<'a>],
    pub(crate) body: &'a [u8],
}

impl<'a> BufferedRequest<'a> {
    /// Whether it has this method and exactly this path, without a query.
    #[must_use]
    pub fn is(&self, method: &Method, path: &str) -> bool {
        self.method == method.as_str() && self.target == path
    }

    /// The value of the first header field of this name.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&'a [u8]> {
        let mut fields = self.fields.iter();
        let field = fields.find(|field| field.name.eq_ignore_ascii_case(name.as_str()));
        field.map(|field| field.value)
    }

    /// The body.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// The body of a request, which fails if the client stops sending it for too long.
#[derive(Debug)]
pub struct TimedBody {
    body: Incoming,
    timeout: Duration,
    /// Runs from the first time that a part of the body was waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub(crate) const fn new(body: Incoming, timeout: Duration) -> Self {
        Self {
            body,
            timeout,
            timer: None,
        }
    }
}

impl hyper::body::Body for TimedBody {
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
        let timeout = this.timeout;
        let timer = this
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        timer.as_mut().poll(context).map(|()| {
            Some(Err(
                format!("the body did not come within {timeout:?}").into()
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
