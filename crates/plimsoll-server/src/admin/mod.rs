//! The admin port: the live page, health, readiness, metrics and limits as they stand.

mod metrics;
#[cfg(feature = "redis")]
mod store_metrics;

use std::sync::Arc;

use axum::extract::{FromRef, Query, Request, State as Extract};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use plimsoll_engine::TopKey;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api;
use crate::envoy::Envoy;
use crate::page::{self, Streams};
use crate::quota;
use crate::state::State;

/// How many keys of a limit are shown.
const TOP: usize = 10;

/// What the admin port knows.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) state: Arc<State>,
    /// What must be said to be answered, if anything.
    pub(crate) token: Option<Arc<str>>,
    pub(crate) envoy: Arc<Envoy>,
    pub(crate) streams: Streams,
    pub(crate) started: Instant,
}

impl FromRef<Admin> for Arc<State> {
    fn from_ref(admin: &Admin) -> Self {
        Self::clone(&admin.state)
    }
}

/// All paths of the port.
pub(crate) fn router(admin: Admin) -> Router {
    let guarded = axum::middleware::from_fn_with_state(admin.clone(), guard);
    let envoy = crate::envoy::admin_router(&admin.envoy).layer(guarded.clone());
    page::files()
        .route("/limits", get(limits))
        .route("/reload", get(reload))
        .route("/events", get(events))
        .route("/top", get(top))
        .route("/peek", post(api::peek))
        .route("/quotas", get(quotas))
        .route("/metrics", get(metrics::metrics))
        .layer(axum::middleware::from_fn(page::protect))
        .layer(guarded)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(admin)
        .merge(envoy)
}

/// Not ready any more as soon as the server stops, so that others are asked in its place.
async fn ready(Extract(admin): Extract<Admin>) -> (StatusCode, &'static str) {
    match admin.state.drain.has_begun() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        false => (StatusCode::OK, "ready\n"),
    }
}

async fn limits(Extract(admin): Extract<Admin>, Query(shown): Query<Shown>) -> Json<Value> {
    Json(shown.look(&admin))
}

/// `GET /events`: what `/limits` says, each second.
async fn events(Extract(admin): Extract<Admin>, Query(shown): Query<Shown>) -> Response {
    let (streams, drain) = (admin.streams.clone(), admin.state.drain.clone());
    page::events(&streams, drain, move || shown.look(&admin))
}

/// Which limits are shown: those with a name that contains `search`, and of them at most `most`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Shown {
    search: String,
    most: usize,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            search: String::new(),
            most: usize::MAX,
        }
    }
}

impl Shown {
    fn look(&self, admin: &Admin) -> Value {
        let all = admin.state.limits.snapshot();
        let search = self.search.to_lowercase();
        let found = all.iter();
        let found = found.filter(|it| it.name.to_lowercase().contains(&search));
        let shown: Vec<Value> = found.take(self.most).map(api::view).collect();
        json!({
            "limits": shown,
            "limits_total": all.len(),
            "leases": admin.state.leases.len(),
            "connections": admin.state.connections.taken(),
            "uptime_seconds": admin.started.elapsed().as_secs(),
            "reload": admin.state.reloads.seen().2,
            "quotas": quota::page(&admin.state.quotas),
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}

/// Which limit the keys are of.
#[derive(Debug, Deserialize)]
struct Of {
    limit: String,
}

/// `GET /top?limit=NAME`: the keys that come most often, masked.
async fn top(
    Extract(admin): Extract<Admin>,
    Query(of): Query<Of>,
) -> Result<Json<Value>, StatusCode> {
    let top = admin.state.limits.top(&of.limit, TOP, false);
    let top = top.ok_or(StatusCode::NOT_FOUND)?;
    let rows = |keys: Vec<TopKey>| -> Vec<Value> {
        let row = |it: TopKey| json!({ "key": it.key, "count": it.count, "error": it.error });
        keys.into_iter().map(row).collect()
    };
    Ok(Json(
        json!({ "used": rows(top.used), "refused": rows(top.refused) }),
    ))
}

/// What came of reading the file again: how often, and what changed the last time or was wrong with it.
async fn reload(Extract(admin): Extract<Admin>) -> Json<Value> {
    let (done, refused, last) = admin.state.reloads.seen();
    Json(json!({ "done": done, "refused": refused, "last": last }))
}

async fn quotas(Extract(admin): Extract<Admin>) -> Json<Value> {
    Json(quota::page(&admin.state.quotas))
}

/// Refuses host names that a foreign page could have pointed at this machine, and requests without the token.
async fn guard(Extract(admin): Extract<Admin>, request: Request, next: Next) -> Response {
    if let Some(token) = &admin.token {
        let said = request.headers().get(AUTHORIZATION);
        let said = said.and_then(|it| said_token(it.as_bytes()));
        if !said.is_some_and(|said| crate::state::same(token.as_bytes(), &said)) {
            let ask = [(WWW_AUTHENTICATE, "Basic realm=\"plimsoll\"")];
            let why =
                "expected Authorization: Bearer TOKEN; in a browser, the token as the password\n";
            return (StatusCode::UNAUTHORIZED, ask, why).into_response();
        }
    } else if !is_local(request.headers()) {
        let why = "this port answers to its address and to localhost only, unless it has a token\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// The token of a client, or the password that a browser asked its user for.
fn said_token(authorization: &[u8]) -> Option<Vec<u8>> {
    if let Some(token) = authorization.strip_prefix(b"Bearer ") {
        return Some(token.to_vec());
    }
    let both = BASE64_STANDARD.decode(authorization.strip_prefix(b"Basic ")?);
    let both = both.ok()?;
    let colon = both.iter().position(|it| *it == b':')?;
    Some(both[colon + 1..].to_vec())
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
