//! Layers that add the peer of a connection to its requests.

use std::task::{Context, Poll};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use super::{PeerAddr, UnixPeer};

/// A service that adds the peer of a connection to the extensions of all its requests. The layers [`PeerAddr`] and
/// [`UnixPeer`] make one.
///
/// ```
/// use plimsoll_tower::keys::PeerAddr;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let peer: std::net::SocketAddr = "192.0.2.1:40000".parse().unwrap();
/// // One service for each accepted connection.
/// let service = PeerAddr(peer).layer(service_fn(async |request: http::Request<()>| {
///     Ok::<_, std::io::Error>(request.extensions().get::<PeerAddr>().copied())
/// }));
/// assert_eq!(service.oneshot(http::Request::new(())).await.unwrap(), Some(PeerAddr(peer)));
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AddPeer<S, P> {
    inner: S,
    peer: P,
}

impl<S> Layer<S> for PeerAddr {
    type Service = AddPeer<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        AddPeer { inner, peer: *self }
    }
}

impl<S> Layer<S> for UnixPeer {
    type Service = AddPeer<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        AddPeer { inner, peer: *self }
    }
}

impl<S, P, B> Service<Request<B>> for AddPeer<S, P>
where
    S: Service<Request<B>>,
    P: Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        self.inner.call(request)
    }
}
