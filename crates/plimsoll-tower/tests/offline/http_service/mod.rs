//! Limits before a service that speaks HTTP. Nothing here needs a runtime or a socket: services, futures and bodies are
//! polled by hand.

mod bodies;
mod charges;
mod content_length;
mod costs;
mod fields;
mod grpc_web;
mod keys_found_later;
mod nested;
mod refusals;
mod remote;
mod several;
mod waiting;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use plimsoll_tower::keys::PeerAddr;
use plimsoll_tower::{HttpLimit, LimitBody, Limits};
use tower_service::Service;

/// A service that answers at once.
struct Answers<B>(fn(&Request<()>) -> Response<B>);

impl<B> Clone for Answers<B> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<B> Service<Request<()>> for Answers<B> {
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Ready<Result<Response<B>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        ready(Ok((self.0)(&request)))
    }
}

/// Says that all is well.
const OK: Answers<Full<Bytes>> = Answers(|_| Response::new(Full::new(Bytes::from_static(b"ok"))));

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

/// A request from this address.
fn from(address: [u8; 4]) -> Request<()> {
    let mut request = get("/");
    let peer = PeerAddr((address, 40_000).into());
    request.extensions_mut().insert(peer);
    request
}

/// What a service that need not wait answers.
fn answer<S, B, L>(service: &mut HttpLimit<S, L>, request: Request<()>) -> Response<LimitBody<B, L>>
where
    S: Service<Request<()>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
    B: Body<Data = Bytes>,
    L: Limits,
{
    crate::hand::now(service.call(request)).unwrap()
}

/// All of a body that is there.
fn text<B: Body<Data = Bytes>>(response: Response<B>) -> String
where
    B::Error: std::fmt::Debug,
{
    let body = crate::hand::now(response.into_body().collect()).unwrap();
    String::from_utf8(body.to_bytes().into()).unwrap()
}

/// A field of a response, or nothing.
fn field<'r, B>(response: &'r Response<B>, name: &str) -> &'r str {
    response
        .headers()
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}
