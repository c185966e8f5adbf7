//! The request of a step, and the handler that answers it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use plimsoll_engine::{Claims, Descriptors, Hold, Limits, Refusal};
use plimsoll_spec::quote;
use plimsoll_tower::keys::PeerAddr;
use plimsoll_tower::{Head, Usage};
use tower_service::Service;

use crate::spec::{Reply, RequestSpec};

/// The request of a step, or an error message.
pub(super) fn request(spec: &RequestSpec) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::new(Full::from(spec.body.clone()));
    *request.method_mut() = spec.method.parse().map_err(|_| {
        format!(
            "expected a method such as GET, found {}",
            quote(&spec.method)
        )
    })?;
    *request.uri_mut() = spec.target.parse().map_err(|_| {
        format!(
            "expected a path such as /login, found {}",
            quote(&spec.target)
        )
    })?;
    fields(&spec.headers, request.headers_mut())?;
    if !spec.body.is_empty() {
        let headers = request.headers_mut();
        headers
            .entry(CONTENT_LENGTH)
            .or_insert_with(|| spec.body.len().into());
        if spec.body.starts_with(['{', '[']) {
            let json = HeaderValue::from_static("application/json");
            headers.entry(CONTENT_TYPE).or_insert(json);
        }
    }
    let extensions = request.extensions_mut();
    if let Some(from) = spec.from {
        extensions.insert(PeerAddr(SocketAddr::new(from, 0)));
    }
    if !spec.claims.is_empty() {
        extensions.insert(spec.claims.iter().cloned().collect::<Claims>());
    }
    if !spec.descriptors.is_empty() {
        extensions.insert(Descriptors(spec.descriptors.clone()));
    }
    extensions.insert(spec.reply.clone());
    Ok(request)
}

fn fields(from: &[(String, String)], to: &mut HeaderMap) -> Result<(), String> {
    for (name, value) in from {
        let field = name.parse::<HeaderName>().ok();
        let field = field.zip(HeaderValue::from_str(value).ok());
        let (name, value) = field.ok_or_else(|| {
            format!(
                "expected a header field, found {}: {}",
                quote(name),
                quote(value)
            )
        })?;
        to.append(name, value);
    }
    Ok(())
}

/// Reads a buffered body to its end.
pub(super) fn drain<B: Body>(mut body: Pin<&mut B>) {
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(Ok(_))) = body.as_mut().poll_frame(&mut cx) {}
}

/// The handler, which answers as the step says.
#[derive(Clone)]
pub(super) struct Handler;

impl<B: Body> Service<Request<B>> for Handler {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (head, body) = request.into_parts();
        drain(std::pin::pin!(body));
        let reply = head.extensions.get::<Reply>().cloned().unwrap_or_default();
        if let (Some(used), Some(usage)) = (reply.usage, head.extensions.get::<Usage>()) {
            usage.add(used);
        }
        let is_json = reply.body.starts_with(['{', '[']);
        let mut response = Response::new(Full::from(reply.body));
        let status = reply.status.and_then(|it| StatusCode::from_u16(it).ok());
        *response.status_mut() = status.unwrap_or_default();
        // The fields of a reply are checked before a request is sent.
        let _ = fields(&reply.headers, response.headers_mut());
        if is_json {
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().entry(CONTENT_TYPE).or_insert(json);
        }
        ready(Ok(response))
    }
}

/// A handler that peeks at the answers of the limits.
#[derive(Clone)]
pub(super) struct Peek(pub(super) Limits);

impl<B> Service<Request<B>> for Peek {
    type Response = Option<Result<Hold, Refusal>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(self.0.peek_request(&Head::of(&request))))
    }
}
