//! `/v1/leases`: permits that a client holds until it releases them or the lease expires.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State as Extract};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use plimsoll::Outcome;
use plimsoll_admin::{DecisionRequest, LimitAnswer, Problem, millis};
use plimsoll_engine::Hold;
use serde::Deserialize;
use serde_json::{Value, json};

use super::check::{decide, refused};
use crate::leases::{Id, Lease};
use crate::state::State;

/// Default and maximum time to live of a lease, in milliseconds.
const DEFAULT_TTL: u64 = 30_000;
const MAX_TTL: u64 = 3_600_000;

/// The body of `POST /v1/leases`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateLease {
    /// The decision whose permits are held by the lease.
    hold: DecisionRequest,
    #[serde(default = "default_ttl")]
    ttl_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewLease {
    #[serde(default = "default_ttl")]
    ttl_ms: u64,
}

/// The body of `POST /v1/leases/{id}/commit`: the outcome of the work and its cost.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitLease {
    #[serde(default)]
    outcome: Outcome,
    /// The actual costs, by limit.
    #[serde(default)]
    costs: BTreeMap<String, u64>,
}

const fn default_ttl() -> u64 {
    DEFAULT_TTL
}

fn check_ttl(ttl_ms: u64) -> Result<Duration, Problem> {
    match ttl_ms {
        1..=MAX_TTL => Ok(Duration::from_millis(ttl_ms)),
        _ => Err(Problem::bad(format!(
            "ttl_ms is {ttl_ms}: expected 1 to {MAX_TTL}"
        ))),
    }
}

/// `POST /v1/leases`
pub(crate) async fn create(
    Extract(state): Extract<Arc<State>>,
    body: Result<Json<CreateLease>, JsonRejection>,
) -> Result<Response, Problem> {
    let CreateLease { hold, ttl_ms } = body?.0;
    let ttl = check_ttl(ttl_ms)?;
    let asked = hold.prepare(&state.limits, true)?;
    let hold = match decide(&state, &asked).await? {
        Some(Ok(hold)) => hold,
        Some(Err(refusal)) => return Ok(refused(&refusal).map(Body::from)),
        None => {
            return Err(Problem::unprocessable(
                "no route is for this request: there is nothing to hold",
            ));
        }
    };
    let answers: Vec<LimitAnswer<'_>> = hold.answers().map(LimitAnswer::from).collect();
    let answers = serde_json::to_value(answers).unwrap_or_default();
    let lease = state.leases.insert(hold, ttl).ok_or_else(too_many_leases)?;
    let mut headers = HeaderMap::new();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/leases/{}", lease.id)) {
        headers.insert(header::LOCATION, location);
    }
    let mut body = lease_json(&lease);
    body["answers"] = answers;
    Ok((StatusCode::CREATED, headers, Json(body)).into_response())
}

fn too_many_leases() -> Problem {
    Problem::refused(
        StatusCode::SERVICE_UNAVAILABLE,
        "about:blank",
        "Service Unavailable",
        "this server has its maximum number of leases",
    )
}

fn lease_json(lease: &Lease) -> Value {
    json!({
        "id": lease.id.to_string(),
        "expires_in_ms": millis(lease.ttl),
        "fence": lease.fence,
    })
}

/// `PATCH /v1/leases/{id}`
pub(crate) async fn renew(
    Extract(state): Extract<Arc<State>>,
    Path(id): Path<String>,
    body: Result<Json<RenewLease>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let ttl = check_ttl(body?.0.ttl_ms)?;
    let lease = Id::parse(&id).and_then(|id| state.leases.renew(id, ttl));
    lease
        .map(|lease| Json(lease_json(&lease)))
        .ok_or_else(lease_not_found)
}

/// `DELETE /v1/leases/{id}`. Idempotent.
pub(crate) async fn release(
    Extract(state): Extract<Arc<State>>,
    Path(id): Path<String>,
) -> StatusCode {
    if let Some(hold) = take(&state, &id) {
        hold.finish(Outcome::Success);
    }
    StatusCode::NO_CONTENT
}

/// `POST /v1/leases/{id}/commit`
pub(crate) async fn commit(
    Extract(state): Extract<Arc<State>>,
    Path(id): Path<String>,
    body: Result<Json<CommitLease>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let CommitLease { outcome, costs } = body?.0;
    let mut hold = take(&state, &id).ok_or_else(lease_not_found)?;
    for (limit, cost) in costs {
        hold.settle(&limit, cost);
    }
    hold.finish(outcome);
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/leases/{id}/undo`
pub(crate) async fn undo(
    Extract(state): Extract<Arc<State>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    take(&state, &id).ok_or_else(lease_not_found)?.undo();
    Ok(StatusCode::NO_CONTENT)
}

fn take(state: &State, id: &str) -> Option<Hold> {
    state.leases.take(Id::parse(id)?)
}

fn lease_not_found() -> Problem {
    Problem::not_found("there is no such lease: it was released or has expired")
}
