//! The fast path of the HTTP port: `POST /v1/check` is handled before the router and its layers.
//!
//! A router boxes a service and a future for each of its layers, which costs more than a decision.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request};
use plimsoll_admin::{BufferedRequest, Handler, Problem, TimedBody};

use super::check;
use super::check::BufferedResponse;
use super::check_request::CheckRequest;
use crate::body::{self, LONGEST_BODY};
use crate::state::State;

const PATH: &str = "/v1/check";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The handler of the HTTP port: simple checks on the fast path, all other requests by the router.
#[derive(Clone)]
pub(crate) struct HttpHandler {
    state: Arc<State>,
    router: Router,
}

impl HttpHandler {
    pub(crate) fn new(state: &Arc<State>, router: Router) -> Self {
        Self {
            state: Arc::clone(state),
            router,
        }
    }
}

impl Handler for HttpHandler {
    async fn handle(&self, request: Request<TimedBody>, peer: SocketAddr) -> Response {
        let is_check = *request.method() == Method::POST && request.uri().path() == PATH;
        let headers = request.headers();
        let field = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        let is_short = is_short(field(&CONTENT_LENGTH));
        if !is_check || !is_short || !is_plain(field) || self.state.traces.is_enabled() {
            return self.router.handle(request, peer).await;
        }
        if !self.state.is_authorized(headers) {
            return Problem::unauthorized().into_response();
        }
        let checked = match body::read_to_end(request.into_body(), LONGEST_BODY).await {
            Ok(body) => match Json::from_bytes(&body) {
                Ok(Json(check)) => check::answer(&self.state, check).await,
                Err(rejection) => Err(rejection.into()),
            },
            Err(_) => Err(Problem::too_large()),
        };
        checked
            .unwrap_or_else(BufferedResponse::from)
            .map(Body::from)
    }

    async fn handle_buffered(&self, request: &BufferedRequest<'_>) -> Option<BufferedResponse> {
        let field = |name: &HeaderName| request.header(name);
        if !request.is(&Method::POST, PATH) || !is_plain(field) || self.state.traces.is_enabled() {
            return None;
        }
        if !self.state.is_authorized_by(field(&AUTHORIZATION)) {
            return Some(Problem::unauthorized().into());
        }
        let checked = match serde_json::from_slice(request.body()) {
            // A check that waits must notice that the client disconnects, which only hyper does.
            Ok(check) if check::may_wait(&check) => return None,
            Ok(check) => check::answer(&self.state, check).await,
            // Parses again for an error message that names the path of the wrong field.
            Err(_) => match Json::<CheckRequest>::from_bytes(request.body()) {
                Ok(_) => return None,
                Err(rejection) => Err(rejection.into()),
            },
        };
        Some(checked.unwrap_or_else(BufferedResponse::from))
    }
}

/// Whether a body of this `content-length` is short enough to be read into memory.
fn is_short(length: Option<&[u8]>) -> bool {
    let length = length.and_then(|it| std::str::from_utf8(it).ok());
    let length = length.and_then(|it| it.parse::<usize>().ok());
    length.is_some_and(|length| length <= LONGEST_BODY)
}

/// Whether the header fields allow the fast path: the body is JSON, and there is no idempotency key.
fn is_plain<'a>(field: impl Fn(&HeaderName) -> Option<&'a [u8]>) -> bool {
    field(&CONTENT_TYPE) == Some(b"application/json") && field(&IDEMPOTENCY_KEY).is_none()
}
