//! The HTTP port: checks, charges and leases, as JSON.

mod check;
mod check_request;
mod fast_path;
mod idempotency;
mod leases;
mod openapi;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State as Extract};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use plimsoll_admin::Problem;

pub(crate) use fast_path::HttpHandler;

use crate::body::LONGEST_BODY;
use crate::state::State;

/// All routes of the port.
pub(crate) fn router(state: Arc<State>) -> Router {
    let authorized = axum::middleware::from_fn_with_state(Arc::clone(&state), authorize);
    Router::new()
        .route("/v1/check", post(check::check))
        .route("/v1/peek", post(check::peek))
        .route("/v1/charge", post(check::charge))
        .route("/v1/refund", post(check::refund))
        .route("/v1/leases", post(leases::create))
        .route(
            "/v1/leases/{id}",
            axum::routing::patch(leases::renew).delete(leases::release),
        )
        .route("/v1/leases/{id}/commit", post(leases::commit))
        .route("/v1/leases/{id}/undo", post(leases::undo))
        .route("/v1/limits", get(check::limits))
        .layer(axum::middleware::from_fn_with_state(
            idempotency::StoredResponses::default(),
            idempotency::replay,
        ))
        .layer(authorized)
        .route("/openapi.json", get(openapi::document))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(state)
}

/// Middleware that answers 401 to requests without the token, if one is set.
pub(crate) async fn authorize(
    Extract(state): Extract<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    match state.is_authorized(request.headers()) {
        true => next.run(request).await,
        false => Problem::unauthorized().into_response(),
    }
}

async fn not_found() -> Problem {
    Problem::not_found("there is no such path; /openapi.json describes those that there are")
}

async fn not_allowed() -> Problem {
    Problem::not_allowed()
}
