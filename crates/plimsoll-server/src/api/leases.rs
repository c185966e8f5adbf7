//! Leases: what is held until it is released, or its time is up.

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

/// How long a lease lasts unless it says so itself, and at most.
const TTL: u64 = 30_000;
const LONGEST_TTL: u64 = 3_600_000;

/// A lease that is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// What is to be held.
    hold: DecisionRequest,
    #[serde(default = "ttl")]
    ttl_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renewal {
    #[serde(default = "ttl")]
    ttl_ms: u64,
}

/// How the work went, and what it cost.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Committed {
    #[serde(default)]
    outcome: Outcome,
    /// What was really used, by limit.
    #[serde(default)]
    costs: BTreeMap<String, u64>,
}

const fn ttl() -> u64 {
    TTL
}

fn checked(ttl_ms: u64) -> Result<Duration, Problem> {
    match ttl_ms {
        1..=LONGEST_TTL => Ok(Duration::from_millis(ttl_ms)),
        _ => Err(Problem::bad(format!(
            "ttl_ms is {ttl_ms}: expected 1 to {LONGEST_TTL}"
        ))),
    }
}

/// `POST /v1/leases`
pub(crate) async fn create(
    Extract(state): Extract<Arc<State>>,
    body: Result<Json<Wanted>, JsonRejection>,
) -> Result<Response, Problem> {
    let Wanted { hold, ttl_ms } = body?.0;
    let ttl = checked(ttl_ms)?;
    let asked = hold.prepare(&state.limits, true)?;
    let hold = match decide(&state, &asked).await? {
        Some(Ok(hold)) => hold,
        Some(Err(refusal)) => return Ok(refused(&refusal).map(Body::from)),
        None => {
            return Err(Problem::bad(
                "no route is for this request: there is nothing to hold",
            ));
        }
    };
    let answers: Vec<LimitAnswer<'_>> = hold.answers().map(LimitAnswer::from).collect();
    let answers = serde_json::to_value(answers).unwrap_or_default();
    let lease = state.leases.insert(hold, ttl).ok_or_else(full)?;
    let mut headers = HeaderMap::new();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/leases/{}", lease.id)) {
        headers.insert(header::LOCATION, location);
    }
    let mut body = told(&lease);
    body["answers"] = answers;
    Ok((StatusCode::CREATED, headers, Json(body)).into_response())
}

fn full() -> Problem {
    Problem::refused(
        StatusCode::SERVICE_UNAVAILABLE,
        "about:blank",
        "Service Unavailable",
        "this server keeps as many leases as it may",
    )
}

fn told(lease: &Lease) -> Value {
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
    body: Result<Json<Renewal>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let ttl = checked(body?.0.ttl_ms)?;
    let lease = Id::parse(&id).and_then(|id| state.leases.renew(id, ttl));
    lease.map(|lease| Json(told(&lease))).ok_or_else(ended)
}

/// `DELETE /v1/leases/{id}`: as often as it is said, the result is the same.
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
    body: Result<Json<Committed>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Committed { outcome, costs } = body?.0;
    let mut hold = take(&state, &id).ok_or_else(ended)?;
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
    take(&state, &id).ok_or_else(ended)?.undo();
    Ok(StatusCode::NO_CONTENT)
}

fn take(state: &State, id: &str) -> Option<Hold> {
    state.leases.take(Id::parse(id)?)
}

fn ended() -> Problem {
    Problem::not_found("there is no such lease: it was released, or its time was up")
}
