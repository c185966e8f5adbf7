//! The admin port: the live page, health, readiness, metrics and the state of limits.

use std::fmt;
use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Query, Request, State as Extract};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use plimsoll_engine::{Limits, TopKey};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::decision::{decision_json, limit_json};
use crate::drain::Drain;
use crate::metrics::metrics;
use crate::page::{self, Streams};
use crate::problem::Problem;
use crate::reload::Reloads;
use crate::request::DecisionRequest;
use crate::secret::constant_time_eq;

/// Number of keys in `/top`.
const TOP: usize = 10;
/// Maximum length of a request body.
const LONGEST_BODY: usize = 256 * 1024;

/// The parts that a program adds to its admin port.
pub trait Program: Send + Sync + 'static {
    /// Additional fields of `/limits` and of each event. The page shows `connections`, `leases`, `in_flight`, `upstreams` and `quotas`
    /// if they are present.
    fn fields(&self) -> Map<String, Value>;

    /// Writes the metrics of this program.
    fn metrics(&self, out: &mut String);

    /// Additional paths of this program; none by default.
    fn paths(self: Arc<Self>) -> Router {
        Router::new()
    }
}

/// The admin port of a program.
#[derive(Clone)]
pub struct Admin {
    limits: Limits,
    reloads: Reloads,
    drain: Drain,
    program: Arc<dyn Program>,
    token: Option<Arc<str>>,
    streams: Streams,
    started: Instant,
}

impl Admin {
    /// Creates the port. `/readyz` fails as soon as `drain` begins.
    pub fn new(limits: Limits, reloads: Reloads, drain: Drain, program: Arc<impl Program>) -> Self {
        Self {
            limits,
            reloads,
            drain,
            program,
            token: None,
            streams: Streams::default(),
            started: Instant::now(),
        }
    }

    /// Sets the token that operators must send; none by default.
    #[must_use]
    pub fn token(mut self, token: Option<String>) -> Self {
        self.token = token.map(Into::into);
        self
    }

    /// All paths of the port.
    pub fn router(self) -> Router {
        let guarded = axum::middleware::from_fn_with_state(self.clone(), guard);
        let more = Arc::clone(&self.program).paths();
        page::files()
            .route("/limits", get(limits))
            .route("/reload", get(reload))
            .route("/events", get(events))
            .route("/top", get(top))
            .route("/peek", post(peek))
            .route("/metrics", get(all_metrics))
            .with_state(self.clone())
            .merge(more)
            .layer(axum::middleware::from_fn(page::protect))
            .layer(guarded)
            .layer(DefaultBodyLimit::max(LONGEST_BODY))
            .merge(
                Router::new()
                    .route("/healthz", get(|| async { "ok\n" }))
                    .route("/readyz", get(ready))
                    .with_state(self),
            )
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// `GET /readyz`. Fails as soon as the shutdown begins, so that a load balancer chooses another server.
async fn ready(Extract(admin): Extract<Admin>) -> (StatusCode, &'static str) {
    match admin.drain.has_begun() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        false => (StatusCode::OK, "ready\n"),
    }
}

async fn limits(Extract(admin): Extract<Admin>, Query(shown): Query<Shown>) -> Json<Value> {
    Json(shown.look(&admin))
}

/// `GET /events`: the JSON of `/limits` each second.
async fn events(Extract(admin): Extract<Admin>, Query(shown): Query<Shown>) -> Response {
    let (streams, drain) = (admin.streams.clone(), admin.drain.clone());
    page::events(&streams, drain, move || shown.look(&admin))
}

/// `POST /peek`: the decision for a request, without taking permits.
async fn peek(
    Extract(admin): Extract<Admin>,
    body: Result<Json<DecisionRequest>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let asked = body?.0.prepare(&admin.limits, true)?;
    Ok(Json(decision_json(asked.peek(&admin.limits).as_ref())))
}

async fn all_metrics(Extract(admin): Extract<Admin>) -> Response {
    let mut out = metrics(&admin.limits).await;
    admin.program.metrics(&mut out);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], out).into_response()
}

/// The query of `/limits`: shows at most `most` limits whose names contain `search`.
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
        let all = admin.limits.snapshot();
        let search = self.search.to_lowercase();
        let found = all.iter();
        let found = found.filter(|it| it.name.to_lowercase().contains(&search));
        let shown: Vec<Value> = found.take(self.most).map(limit_json).collect();
        let mut fields = admin.program.fields();
        fields.insert("limits".to_owned(), shown.into());
        fields.insert("limits_total".to_owned(), all.len().into());
        let uptime = u64::try_from(admin.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        fields.insert("uptime_ms".to_owned(), uptime.into());
        let reload = admin.reloads.seen().2.unwrap_or_default();
        fields.insert("reload".to_owned(), reload);
        fields.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        Value::Object(fields)
    }
}

/// The query of `/top`.
#[derive(Debug, Deserialize)]
struct Of {
    limit: String,
}

/// `GET /top?limit=NAME`: the most frequent keys, masked.
async fn top(
    Extract(admin): Extract<Admin>,
    Query(of): Query<Of>,
) -> Result<Json<Value>, StatusCode> {
    let top = admin.limits.top(&of.limit, TOP, false);
    let top = top.ok_or(StatusCode::NOT_FOUND)?;
    let rows = |keys: Vec<TopKey>| -> Vec<Value> {
        let row = |it: TopKey| json!({ "key": it.key, "count": it.count, "error": it.error });
        keys.into_iter().map(row).collect()
    };
    Ok(Json(
        json!({ "used": rows(top.used), "refused": rows(top.refused) }),
    ))
}

/// `GET /reload`: the number of reloads, and the changes or errors of the last one.
async fn reload(Extract(admin): Extract<Admin>) -> Json<Value> {
    let (done, refused, last) = admin.reloads.seen();
    Json(json!({ "done": done, "refused": refused, "last": last }))
}

/// Refuses requests without the token, and without a token requests for host names, to prevent DNS rebinding.
async fn guard(Extract(admin): Extract<Admin>, request: Request, next: Next) -> Response {
    if let Some(token) = &admin.token {
        let presented = request.headers().get(AUTHORIZATION);
        let presented = presented.and_then(|it| presented_token(it.as_bytes()));
        if !presented.is_some_and(|presented| constant_time_eq(token.as_bytes(), &presented)) {
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

/// The token in an `authorization` field: a bearer token, or the password of basic authentication.
fn presented_token(authorization: &[u8]) -> Option<Vec<u8>> {
    if let Some(token) = authorization.strip_prefix(b"Bearer ") {
        return Some(token.to_vec());
    }
    let both = BASE64_STANDARD.decode(authorization.strip_prefix(b"Basic ")?);
    let both = both.ok()?;
    let colon = both.iter().position(|it| *it == b':')?;
    Some(both[colon + 1..].to_vec())
}

/// Whether the host of the request is an address or `localhost`. Any other name could be controlled by an attacker.
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
