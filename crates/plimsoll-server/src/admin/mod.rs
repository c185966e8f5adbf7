//! The admin port: health, readiness, metrics and limits as they stand.

mod metrics;

use std::sync::Arc;

use axum::extract::{Request, State as Extract};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::api;
use crate::drain::Drain;
use crate::state::State;

/// What the admin port knows.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) state: Arc<State>,
    pub(crate) drain: Drain,
    /// What must be said to be answered, if anything.
    pub(crate) token: Option<Arc<str>>,
}

/// All paths of the port.
pub(crate) fn router(admin: Admin) -> Router {
    let guarded = axum::middleware::from_fn_with_state(admin.clone(), guard);
    Router::new()
        .route("/limits", get(limits))
        .route("/reload", get(reload))
        .route("/metrics", get(metrics::metrics))
        .layer(guarded)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(admin)
}

/// Not ready any more as soon as the server stops, so that others are asked in its place.
async fn ready(Extract(admin): Extract<Admin>) -> (StatusCode, &'static str) {
    match admin.drain.has_begun() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        false => (StatusCode::OK, "ready\n"),
    }
}

async fn limits(Extract(admin): Extract<Admin>) -> Json<Value> {
    let limits: Vec<Value> = admin
        .state
        .limits
        .snapshot()
        .iter()
        .map(api::view)
        .collect();
    Json(json!({
        "limits": limits,
        "leases": admin.state.leases.len(),
        "connections": admin.state.connections.taken(),
    }))
}

/// What came of reading the file again: how often, and what changed the last time or was wrong with it.
async fn reload(Extract(admin): Extract<Admin>) -> Json<Value> {
    let (done, refused, last) = admin.state.reloads.seen();
    Json(json!({ "done": done, "refused": refused, "last": last }))
}

/// Refuses names that a page of somebody else could have pointed at this machine, and who does not know the token.
async fn guard(Extract(admin): Extract<Admin>, request: Request, next: Next) -> Response {
    if let Some(token) = &admin.token {
        let said = request.headers().get(AUTHORIZATION);
        let said = said.and_then(|it| it.as_bytes().strip_prefix(b"Bearer "));
        if !said.is_some_and(|said| crate::state::same(token.as_bytes(), said)) {
            return (
                StatusCode::UNAUTHORIZED,
                "expected Authorization: Bearer TOKEN\n",
            )
                .into_response();
        }
    } else if !is_local(request.headers()) {
        let why = "this port answers to its address and to localhost only, unless it has a token\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// Whether the host that is asked for is an address or localhost: other names could be anybody's.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return true;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

/// Text of a kind.
pub(super) fn text(kind: &'static str, body: String) -> Response {
    ([(CONTENT_TYPE, kind)], body).into_response()
}
