//! `/v1/check`, `/v1/peek`, `/v1/charge`, `/v1/refund` and `/v1/limits`.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State as Extract;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use plimsoll::Metadata;
use plimsoll_admin::{
    DecisionRequest, LimitAnswer, PreparedDecision, Problem, decision_json, limit_json, millis,
};
use plimsoll_engine::{Answer, Hold, Refusal};
use plimsoll_tower::answer::{Class, Fields, LimitStatus, retry_seconds};
use serde::Serialize;
use serde_json::{Value, json};
use smallvec::SmallVec;

use super::check_request::CheckRequest;
use crate::state::State;

/// Maximum number of decisions in one request.
const MOST_CHECKS: usize = 256;

/// The body of the response to a granted decision.
#[derive(Debug, Serialize)]
struct Admitted<'a> {
    allowed: bool,
    answers: &'a [LimitAnswer<'a>],
}

/// Decisions about up to this many limits allocate no list of answers.
const FEW: usize = 2;

/// A response whose body is in memory.
pub(super) type BufferedResponse = http::Response<Bytes>;

type JsonBody<T> = Result<Json<T>, JsonRejection>;

/// `POST /v1/check`
pub(crate) async fn check(
    Extract(state): Extract<Arc<State>>,
    body: JsonBody<CheckRequest>,
) -> Result<Response, Problem> {
    Ok(answer(&state, body?.0).await?.map(Body::from))
}

/// Whether a decision of the check may wait in a queue.
pub(super) fn may_wait(check: &CheckRequest) -> bool {
    match check {
        CheckRequest::One(request) => request.waits(),
        CheckRequest::Many(requests) => requests.iter().any(DecisionRequest::waits),
    }
}

/// Decides a check.
pub(super) async fn answer(
    state: &State,
    check: CheckRequest,
) -> Result<BufferedResponse, Problem> {
    match check {
        CheckRequest::One(request) => {
            let prepared = request.prepare(&state.limits, false)?;
            if !state.traces.is_enabled()
                && let Some(answer) = prepared.answer_now(&state.limits)
            {
                return Ok(granted([answer]));
            }
            Ok(match decide(state, &prepared).await? {
                // No route matches the request.
                None => admitted(HeaderMap::with_capacity(1), &[]),
                Some(Ok(hold)) => granted(hold.answers()),
                Some(Err(refusal)) => refused(&refusal),
            })
        }
        CheckRequest::Many(checks) => {
            if checks.is_empty() || checks.len() > MOST_CHECKS {
                let count = checks.len();
                return Err(Problem::bad(format!(
                    "checks has {count} entries: expected 1 to {MOST_CHECKS}"
                )));
            }
            // All requests are validated before the first permit is taken.
            let prepared = checks.into_iter();
            let prepared = prepared.map(|it| it.prepare(&state.limits, false));
            let prepared: Vec<_> = prepared.collect::<Result<_, _>>()?;
            let mut results = Vec::with_capacity(prepared.len());
            for prepared in prepared {
                results.push(match decide(state, &prepared).await {
                    Ok(outcome) => decision_json(outcome.as_ref()),
                    // The response still reports the decisions that were made before.
                    Err(_) => json!({ "allowed": false, "reason": "closed", "answers": [] }),
                });
            }
            let body = json!({ "results": results }).to_string();
            Ok(json_response(HeaderMap::with_capacity(1), body))
        }
    }
}

/// Decides, in a span of its own if tracing is enabled.
pub(super) async fn decide(
    state: &State,
    prepared: &PreparedDecision,
) -> Result<Option<Result<Hold, Refusal>>, Problem> {
    let span = state.traces.decision();
    let decided = prepared.decide(&state.limits, &state.drain).await?;
    span.decided(decided.as_ref());
    Ok(decided)
}

/// `POST /v1/peek`
pub(crate) async fn peek(
    Extract(state): Extract<Arc<State>>,
    body: JsonBody<DecisionRequest>,
) -> Result<Response, Problem> {
    let prepared = body?.0.prepare(&state.limits, true)?;
    Ok(Json(decision_json(prepared.peek(&state.limits).as_ref())).into_response())
}

/// `POST /v1/charge`
pub(crate) async fn charge(
    Extract(state): Extract<Arc<State>>,
    body: JsonBody<DecisionRequest>,
) -> Result<StatusCode, Problem> {
    let prepared = body?.0.prepare(&state.limits, false)?;
    let asks = prepared.named().ok_or_else(only_named)?;
    state.limits.charge(&asks);
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/refund`
pub(crate) async fn refund(
    Extract(state): Extract<Arc<State>>,
    body: JsonBody<DecisionRequest>,
) -> Result<StatusCode, Problem> {
    let prepared = body?.0.prepare(&state.limits, false)?;
    let asks = prepared.named().ok_or_else(only_named)?;
    state.limits.refund(&asks);
    Ok(StatusCode::NO_CONTENT)
}

fn only_named() -> Problem {
    Problem::bad("expected `limit` or `asks`: a request is charged when it is checked")
}

/// `GET /v1/limits`
pub(crate) async fn limits(Extract(state): Extract<Arc<State>>) -> Json<Value> {
    let limits: Vec<Value> = state.limits.snapshot().iter().map(limit_json).collect();
    Json(json!({ "limits": limits }))
}

/// The response to a granted decision, with its header fields.
fn granted<'a>(answers: impl IntoIterator<Item = Answer<'a>>) -> BufferedResponse {
    let answers: SmallVec<[Answer<'_>; FEW]> = answers.into_iter().collect();
    let mut headers = HeaderMap::with_capacity(4);
    fields(&answers, &mut headers);
    let answers: SmallVec<[LimitAnswer<'_>; FEW]> =
        answers.into_iter().map(LimitAnswer::from).collect();
    admitted(headers, &answers)
}

fn admitted(headers: HeaderMap, answers: &[LimitAnswer<'_>]) -> BufferedResponse {
    let allowed = true;
    // The usual length of the answer of one limit.
    let mut body = Vec::with_capacity(192);
    match serde_json::to_writer(&mut body, &Admitted { allowed, answers }) {
        Ok(()) => json_response(headers, body),
        Err(_) => {
            let mut failed = BufferedResponse::default();
            *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            failed
        }
    }
}

/// A JSON response.
fn json_response(mut headers: HeaderMap, body: impl Into<Bytes>) -> BufferedResponse {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut response = BufferedResponse::new(body.into());
    *response.headers_mut() = headers;
    response
}

/// The response to a refused decision.
pub(crate) fn refused(refusal: &Refusal) -> BufferedResponse {
    let denied = refusal.denied();
    let class = Class::of_caller(denied);
    let seconds = retry_seconds(denied, &[LimitStatus::of(denied)]);
    let detail = format!("refused by {}: {}", refusal.limit(), denied.phrase());
    let answers: Vec<LimitAnswer<'_>> = refusal.answers().map(LimitAnswer::from).collect();
    let answers = serde_json::to_value(answers).unwrap_or_default();
    let problem = Problem::refused(class.status(), class.problem_type(), class.title(), detail)
        .with("allowed", false)
        .with("limit", refusal.limit())
        .with("reason", denied.reason().as_str())
        .with("retry_after_ms", refusal.retry_after().map(millis))
        .with("answers", answers);
    let about = denied.metadata();
    let code = about.and_then(|about| about.get(Metadata::CODE));
    let pairs = about.into_iter().flat_map(Metadata::pairs);
    let code = code.map(|code| (Metadata::CODE, code)).into_iter();
    let problem = code.chain(pairs).fold(problem, |problem, (name, value)| {
        problem.with_if_absent(name, serde_json::to_value(value).unwrap_or_default())
    });
    let mut response = BufferedResponse::from(problem);
    let answers: Vec<Answer<'_>> = refusal.answers().collect();
    fields(&answers, response.headers_mut());
    if let Some(seconds) = seconds {
        let retry_after = http::header::RETRY_AFTER;
        response.headers_mut().insert(retry_after, seconds.into());
    }
    response
}

/// Writes `RateLimit` and `RateLimit-Policy`.
fn fields(answers: &[Answer<'_>], headers: &mut HeaderMap) {
    let answers = answers.iter();
    let statuses: SmallVec<[LimitStatus<'_>; FEW]> = answers
        .filter(|answer| !answer.shadow)
        .filter_map(|answer| Some(LimitStatus::new(answer.limit, answer.standing?)))
        .collect();
    if !statuses.is_empty() {
        Fields::STANDARD.write(headers, &statuses);
    }
}
