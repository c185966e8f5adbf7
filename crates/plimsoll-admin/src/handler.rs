//! The handler of a port, and the requests that it receives.

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

/// Handles the requests of an [`HttpPort`](crate::HttpPort). Implemented for axum's [`Router`].
pub trait Handler: Clone + Send + Sync + 'static {
    /// Handles one request of the client with this address.
    fn handle(
        &self,
        request: Request<TimedBody>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response> + Send;

    /// Fast path: handles an HTTP/1.1 request that is completely in the read buffer. The connection is not read until the handler returns,
    /// so it must return `None` for a request that may wait. The status of the response must allow a body.
    ///
    /// `None` passes this request and all later requests of the connection to [`handle`](Self::handle). By default all are passed.
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

/// An HTTP/1.1 request whose head and body are in the read buffer of its connection.
#[derive(Debug)]
pub struct BufferedRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) fields: &'a [Header<'a>],
    pub(crate) body: &'a [u8],
}

impl<'a> BufferedRequest<'a> {
    /// Whether the request has this method and exactly this path, without a query.
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

/// The body of a request. It fails if the client does not send it within a timeout.
#[derive(Debug)]
pub struct TimedBody {
    body: Incoming,
    timeout: Duration,
    /// Started when the body is first waited for.
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
