//! `POST /v1/check` as most clients ask it, past the router and its layers.
//!
//! A router boxes a service and a future for each of its layers, which costs more than a decision does.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request};
use plimsoll_admin::{BufferedRequest, Handler, Problem, TimedBody};

use super::check::Whole;
use super::questions::Check;
use super::{LONGEST_BODY, check};
use crate::body;
use crate::state::State;

const PATH: &str = "/v1/check";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// All of the port: checks directly, everything else by its router.
#[derive(Clone)]
pub(crate) struct Port {
    state: Arc<State>,
    router: Router,
}

impl Port {
    pub(crate) fn new(state: &Arc<State>, router: Router) -> Self {
        Self {
            state: Arc::clone(state),
            router,
        }
    }
}

impl Handler for Port {
    async fn handle(&self, request: Request<TimedBody>, peer: SocketAddr) -> Response {
        let is_check = *request.method() == Method::POST && request.uri().path() == PATH;
        let headers = request.headers();
        let field = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        let is_short = is_short(field(&CONTENT_LENGTH));
        if !is_check || !is_short || !is_plain(field) || self.state.traces.are_there() {
            return self.router.handle(request, peer).await;
        }
        if !self.state.is_authorized(headers) {
            return Problem::unauthorized().into_response();
        }
        let checked = match body::whole(request.into_body(), LONGEST_BODY).await {
            Ok(body) => match Json::from_bytes(&body) {
                Ok(Json(check)) => check::answer(&self.state, check).await,
                Err(rejection) => Err(rejection.into()),
            },
            Err(_) => Err(Problem::too_large()),
        };
        checked.unwrap_or_else(Whole::from).map(Body::from)
    }

    async fn handle_buffered(&self, request: &BufferedRequest<'_>) -> Option<Whole> {
        let field = |name: &HeaderName| request.header(name);
        if !request.is(&Method::POST, PATH) || !is_plain(field) || self.state.traces.are_there() {
            return None;
        }
        if !self.state.is_authorized_by(field(&AUTHORIZATION)) {
            return Some(Problem::unauthorized().into());
        }
        let checked = match serde_json::from_slice(request.body()) {
            // Whether the client leaves meanwhile is seen by whoever reads its connection, and only the general server does.
            Ok(check) if check::waits(&check) => return None,
            Ok(check) => check::answer(&self.state, check).await,
            // Once more, for the path of what is wrong.
            Err(_) => match Json::<Check>::from_bytes(request.body()) {
                Ok(_) => return None,
                Err(rejection) => Err(rejection.into()),
            },
        };
        Some(checked.unwrap_or_else(Whole::from))
    }
}

/// Whether a body of this length is read whole.
fn is_short(length: Option<&[u8]>) -> bool {
    let length = length.and_then(|it| std::str::from_utf8(it).ok());
    let length = length.and_then(|it| it.parse::<usize>().ok());
    length.is_some_and(|length| length <= LONGEST_BODY)
}

/// Whether nothing of a check is left to the layers, by its header fields: it has no idempotency key, and its body is plainly JSON.
fn is_plain<'a>(field: impl Fn(&HeaderName) -> Option<&'a [u8]>) -> bool {
    field(&CONTENT_TYPE) == Some(b"application/json") && field(&IDEMPOTENCY_KEY).is_none()
}
