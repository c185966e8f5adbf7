//! What a response says about the load.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use plimsoll::Outcome;

use super::settle::ResponseHead;

/// What a response says about the load, unless told otherwise.
///
/// | HTTP | gRPC | |
/// |---|---|---|
/// | below 500, but 429 | what the caller is to blame for, and success | success |
/// | 429, 503, 504 | `RESOURCE_EXHAUSTED`, `UNAVAILABLE`, `DEADLINE_EXCEEDED` | overload |
/// | all others | all others | nothing: what fails is often fast |
///
/// `None` if it stands in the trailers, as gRPC's status does.
#[must_use]
pub fn outcome_of(head: ResponseHead<'_>) -> Option<Outcome> {
    match head.status() {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Some(Outcome::Overload),
        StatusCode::OK if is_grpc(head.headers()) => grpc_outcome(head.headers()),
        status if status.is_server_error() => Some(Outcome::Ignore),
        _ => Some(Outcome::Success),
    }
}

/// What trailers say about the load.
pub(super) fn outcome_of_trailers(trailers: &HeaderMap) -> Outcome {
    grpc_outcome(trailers).unwrap_or(Outcome::Ignore)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

fn grpc_outcome(headers: &HeaderMap) -> Option<Outcome> {
    Some(match headers.get("grpc-status")?.as_bytes() {
        // OK, cancelled, and what the caller is to blame for.
        b"0" | b"1" | b"3" | b"5" | b"6" | b"7" | b"9" | b"10" | b"11" | b"12" | b"16" => {
            Outcome::Success
        }
        b"4" | b"8" | b"14" => Outcome::Overload,
        _ => Outcome::Ignore,
    })
}
