//! Telling a service who is at the other end of its connection.

use std::task::{Context, Poll};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use super::{PeerAddr, UnixPeer};

/// A service whose requests all come from one peer. Made by [`PeerAddr`] and [`UnixPeer`], which are layers.
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
