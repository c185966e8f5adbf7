//! The HTTP paths of the reference server, enabled by [`EnvoySettings::compat`](super::EnvoySettings::compat).

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State as Extract};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::proto::Code;
use super::service::should_rate_limit;
use super::{Envoy, RateLimitService, json};
use crate::body::LONGEST_BODY;
use plimsoll_admin::Drain;

/// `/json` and `/healthcheck`, on the HTTP port.
pub(crate) fn router(service: &RateLimitService, drain: &Drain) -> Router {
    if !service.envoy.is_compat() {
        return Router::new();
    }
    let drain = drain.clone();
    let authorized =
        axum::middleware::from_fn_with_state(Arc::clone(&service.state), crate::api::authorize);
    Router::new()
        .route("/json", post(check))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(authorized)
        .route(
            "/healthcheck",
            get(|| async move {
                match drain.has_begun() {
                    true => (StatusCode::INTERNAL_SERVER_ERROR, ""),
                    false => (StatusCode::OK, "OK"),
                }
            }),
        )
        .with_state(service.clone())
}

/// `/stats` and `/rlconfig`, on the admin port.
pub(crate) fn admin_router(envoy: &Arc<Envoy>) -> Router {
    if !envoy.is_compat() {
        return Router::new();
    }
    Router::new()
        .route("/stats", get(stats))
        .route("/rlconfig", get(config))
        .with_state(Arc::clone(envoy))
}

/// `POST /json`: 200 if the request is admitted, 429 if it is refused, 400 for an error.
async fn check(Extract(service): Extract<RateLimitService>, body: Bytes) -> Response {
    let request = match json::request(&body) {
        Ok(request) => request,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let answer = match should_rate_limit(&service, &request).await {
        Ok(answer) => answer,
        Err(status) => {
            let why = format!("{}\n", status.message());
            return (StatusCode::BAD_REQUEST, why).into_response();
        }
    };
    let status = match Code::try_from(answer.overall_code) {
        Ok(Code::Ok) => StatusCode::OK,
        Ok(Code::OverLimit) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let body = json::response(&answer).to_string();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn stats(Extract(envoy): Extract<Arc<Envoy>>) -> String {
    envoy.stats().lines()
}

/// `GET /rlconfig`: one line for each limit.
async fn config(Extract(envoy): Extract<Arc<Envoy>>) -> String {
    let mut text = String::new();
    for rule in envoy.tree().rules() {
        let _ = writeln!(
            text,
            "{}: unit={} requests_per_unit={}, shadow_mode: {}",
            rule.path,
            rule.rate.unit.name(),
            rule.rate.limit,
            rule.shadow
        );
    }
    text
}
