//! The JSON of limits and decisions.

use std::time::Duration;

use plimsoll::Metadata;
use plimsoll_engine::{Answer, Hold, LimitView, Refusal};
use serde::Serialize;
use serde_json::{Value, json};

/// The JSON of a limit's current state.
#[must_use]
pub fn limit_json(view: &LimitView) -> Value {
    let snapshot = view.snapshot;
    let refused: serde_json::Map<String, Value> = view
        .refused
        .iter()
        .map(|(reason, count)| (reason.as_str().to_owned(), (*count).into()))
        .collect();
    let tiers = view.tiers.iter();
    let tiers: serde_json::Map<String, Value> = tiers
        .map(|(tier, it)| (tier.clone(), json!({ "limit": it.limit(), "in_use": it.in_use(), "granted_total": it.granted_total(), "denied_total": it.denied_total() })))
        .collect();
    json!({
        "name": view.name,
        "kind": view.kind.map(|kind| kind.as_str()),
        "keyed": view.is_keyed,
        "keys": view.keys,
        "mode": view.mode,
        "limit": snapshot.limit(),
        "in_use": snapshot.in_use(),
        "available": snapshot.available(),
        "saturation": snapshot.saturation(),
        "waiting": snapshot.waiters(),
        "queue_bound": snapshot.queue_bound(),
        "granted_total": snapshot.granted_total(),
        "denied_total": snapshot.denied_total(),
        "refused": refused,
        "would_refuse": view.would_refuse,
        "beyond": view.beyond,
        "tiers": tiers,
        "learned": view.insight.map(|it| json!({
            "decision": it.decision,
            "baseline_ms": it.baseline.map(fraction),
            "latency_ms": it.signal.map(fraction),
        })),
    })
}

/// Milliseconds with microsecond precision.
fn fraction(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

/// The JSON of a decision. `None` is a request that no route matches.
#[must_use]
pub fn decision_json(decided: Option<&Result<Hold, Refusal>>) -> Value {
    match decided {
        None => json!({ "allowed": true, "answers": [] }),
        Some(Ok(hold)) => {
            let answers: Vec<LimitAnswer<'_>> = hold.answers().map(LimitAnswer::from).collect();
            json!({ "allowed": true, "answers": answers })
        }
        Some(Err(refusal)) => {
            let answers: Vec<LimitAnswer<'_>> = refusal.answers().map(LimitAnswer::from).collect();
            json!({
                "allowed": false,
                "limit": refusal.limit(),
                "reason": refusal.denied().reason().as_str(),
                "retry_after_ms": refusal.retry_after().map(millis),
                "answers": answers,
            })
        }
    }
}

/// The answer of one limit, serialized as JSON.
#[derive(Debug, Serialize)]
pub struct LimitAnswer<'a> {
    limit: &'a str,
    cost: u64,
    granted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The metadata of the limit in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

impl<'a> From<Answer<'a>> for LimitAnswer<'a> {
    fn from(answer: Answer<'a>) -> Self {
        let standing = answer.standing;
        Self {
            limit: answer.limit,
            cost: answer.cost,
            granted: answer.is_granted(),
            shadow: answer.shadow,
            quota: standing.map(|it| it.limit),
            remaining: standing.and_then(|it| it.remaining),
            window_ms: standing.and_then(|it| it.window).map(millis),
            reset_ms: standing.and_then(|it| it.reset).map(millis),
            retry_after_ms: answer.retry_after().map(millis),
            reason: answer.denied.map(|denied| denied.reason().as_str()),
            metadata: answer.metadata,
        }
    }
}

/// Milliseconds, rounded up: a retry a moment too early is refused again.
#[must_use]
pub fn millis(span: Duration) -> u64 {
    let rest = !span.subsec_nanos().is_multiple_of(1_000_000);
    u64::try_from(span.as_millis())
        .unwrap_or(u64::MAX)
        .saturating_add(rest.into())
}
