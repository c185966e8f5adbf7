//! Checks: whether something may be done now.

use std::sync::Arc;

use axum::Json;
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

use super::questions::Check;
use crate::state::State;

/// How many decisions one request asks for at most.
const MOST_CHECKS: usize = 256;

/// A decision that was admitted.
#[derive(Debug, Serialize)]
struct Admitted<'a> {
    allowed: bool,
    answers: Vec<LimitAnswer<'a>>,
}

type Body<T> = Result<Json<T>, JsonRejection>;

/// `POST /v1/check`
pub(crate) async fn check(
    Extract(state): Extract<Arc<State>>,
    body: Body<Check>,
) -> Result<Response, Problem> {
    answer(&state, body?.0).await
}

/// Whether a check may wait for its limits.
pub(super) fn waits(check: &Check) -> bool {
    match check {
        Check::One(question) => question.waits(),
        Check::Many(questions) => questions.iter().any(DecisionRequest::waits),
    }
}

/// The answer to a check.
pub(super) async fn answer(state: &State, check: Check) -> Result<Response, Problem> {
    match check {
        Check::One(question) => {
            let asked = question.prepare(&state.limits, false)?;
            Ok(match decide(state, &asked).await? {
                None => unlimited().into_response(),
                Some(decided) => said(decided),
            })
        }
        Check::Many(checks) => {
            if checks.is_empty() || checks.len() > MOST_CHECKS {
                let count = checks.len();
                return Err(Problem::bad(format!(
                    "checks has {count} entries: expected 1 to {MOST_CHECKS}"
                )));
            }
            // Everything that can be wrong is found before anything is taken.
            let asked = checks.into_iter();
            let asked = asked.map(|it| it.prepare(&state.limits, false));
            let asked: Vec<_> = asked.collect::<Result<_, _>>()?;
            let mut results = Vec::with_capacity(asked.len());
            for asked in asked {
                results.push(match decide(state, &asked).await {
                    Ok(outcome) => decision_json(outcome.as_ref()),
                    // What was taken before is said.
                    Err(_) => json!({ "allowed": false, "reason": "closed", "answers": [] }),
                });
            }
            Ok(Json(json!({ "results": results })).into_response())
        }
    }
}

/// Decides, in a span of its own if there are traces.
pub(super) async fn decide(
    state: &State,
    asked: &PreparedDecision,
) -> Result<Option<Result<Hold, Refusal>>, Problem> {
    let span = state.traces.decision();
    let decided = asked.decide(&state.limits, &state.drain).await?;
    span.decided(decided.as_ref());
    Ok(decided)
}

/// `POST /v1/peek`
pub(crate) async fn peek(
    Extract(state): Extract<Arc<State>>,
    body: Body<DecisionRequest>,
) -> Result<Response, Problem> {
    let asked = body?.0.prepare(&state.limits, true)?;
    Ok(Json(decision_json(asked.peek(&state.limits).as_ref())).into_response())
}

/// `POST /v1/charge`
pub(crate) async fn charge(
    Extract(state): Extract<Arc<State>>,
    body: Body<DecisionRequest>,
) -> Result<StatusCode, Problem> {
    let asked = body?.0.prepare(&state.limits, false)?;
    let asks = asked.named().ok_or_else(only_named)?;
    state.limits.charge(&asks);
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/refund`
pub(crate) async fn refund(
    Extract(state): Extract<Arc<State>>,
    body: Body<DecisionRequest>,
) -> Result<StatusCode, Problem> {
    let asked = body?.0.prepare(&state.limits, false)?;
    let asks = asked.named().ok_or_else(only_named)?;
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

/// A request that no route is for.
fn unlimited() -> Json<Admitted<'static>> {
    Json(Admitted {
        allowed: true,
        answers: Vec::new(),
    })
}

/// The answer to one decision, with its header fields.
pub(crate) fn said(decided: Result<Hold, Refusal>) -> Response {
    match decided {
        Ok(hold) => {
            let answers: Vec<Answer<'_>> = hold.answers().collect();
            let mut headers = HeaderMap::with_capacity(4);
            fields(&answers, &mut headers);
            let answers = answers.into_iter().map(LimitAnswer::from).collect();
            let body = Admitted {
                allowed: true,
                answers,
            };
            let Ok(body) = serde_json::to_vec(&body) else {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            };
            // Put together here: two responses in one are moved into each other, field by field.
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let mut response = Response::new(body.into());
            *response.headers_mut() = headers;
            response
        }
        Err(refusal) => refused(&refusal).into_response(),
    }
}

/// The answer to a decision that was refused.
pub(crate) fn refused(refusal: &Refusal) -> impl IntoResponse + use<> {
    let denied = refusal.denied();
    let class = Class::of_caller(denied);
    let answers: Vec<Answer<'_>> = refusal.answers().collect();
    let mut headers = HeaderMap::new();
    fields(&answers, &mut headers);
    let status = LimitStatus::of(denied);
    let seconds = retry_seconds(denied, &[status]);
    if let Some(seconds) = seconds {
        headers.insert(http::header::RETRY_AFTER, seconds.into());
    }
    let answers: Vec<LimitAnswer<'_>> = answers.into_iter().map(LimitAnswer::from).collect();
    let answers = serde_json::to_value(answers).unwrap_or_default();
    let detail = format!("refused by {}: {}", refusal.limit(), denied.phrase());
    let problem = Problem::refused(class.status(), class.problem_type(), class.title(), detail)
        .with("allowed", false)
        .with("limit", refusal.limit())
        .with("reason", denied.reason().as_str())
        .with("retry_after_ms", refusal.retry_after().map(millis))
        .with("answers", answers);
    let about = denied.metadata();
    let code = about.and_then(|about| about.get(Metadata::CODE));
    let pairs = about.into_iter().flat_map(Metadata::pairs);
    let said = code.map(|code| (Metadata::CODE, code)).into_iter();
    let problem = said.chain(pairs).fold(problem, |problem, (name, value)| {
        problem.say(name, serde_json::to_value(value).unwrap_or_default())
    });
    (headers, problem)
}

/// Writes `RateLimit` and `RateLimit-Policy`.
fn fields(answers: &[Answer<'_>], headers: &mut HeaderMap) {
    let answers = answers.iter();
    let statuses: Vec<LimitStatus<'_>> = answers
        .filter(|answer| !answer.shadow)
        .filter_map(|answer| Some(LimitStatus::new(answer.limit, answer.standing?)))
        .collect();
    if !statuses.is_empty() {
        Fields::STANDARD.write(headers, &statuses);
    }
}
