//! `POST /v1/check` as most clients ask it, past the router and its layers.
//!
//! A router boxes a service and a future for each of its layers, which costs more than a decision does.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request};
use plimsoll_admin::{Answers, Arriving, Problem};

use super::{LONGEST_BODY, check};
use crate::body;
use crate::state::State;

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

impl Answers for Port {
    async fn answer(&self, request: Request<Arriving>, peer: SocketAddr) -> Response {
        if !is_direct(&request) || self.state.traces.are_there() {
            return self.router.answer(request, peer).await;
        }
        if !self.state.is_authorized(request.headers()) {
            return Problem::unauthorized().into_response();
        }
        let checked = match body::whole(request.into_body(), LONGEST_BODY).await {
            Err(_) => Err(Problem::too_large()),
            Ok(body) => match Json::from_bytes(&body) {
                Err(rejection) => Err(rejection.into()),
                Ok(Json(check)) => check::answer(&self.state, check).await,
            },
        };
        checked.unwrap_or_else(IntoResponse::into_response)
    }
}

/// Whether it is a check of which nothing is left to the layers: neither an idempotency key, nor a body that may be too long, or
/// of which it is not plain what it is.
fn is_direct(request: &Request<Arriving>) -> bool {
    let headers = request.headers();
    let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    let length = length.and_then(|it| it.parse::<usize>().ok());
    *request.method() == Method::POST
        && request.uri().path() == "/v1/check"
        && length.is_some_and(|length| length <= LONGEST_BODY)
        && headers
            .get(CONTENT_TYPE)
            .is_some_and(|it| it == "application/json")
        && !headers.contains_key("idempotency-key")
}
