//! Classification of responses for adaptive limits.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use plimsoll::Outcome;

use super::settle::ResponseHead;

/// Returns the outcome of a response for adaptive limits. A layer can [classify](crate::HttpLimitLayer::classify)
/// responses in another way.
///
/// | HTTP | gRPC | outcome |
/// |---|---|---|
/// | below 500, except 429 | success, and errors of the caller | success |
/// | 429, 503, 504 | `RESOURCE_EXHAUSTED`, `UNAVAILABLE`, `DEADLINE_EXCEEDED` | overload |
/// | all others | all others | ignored: failures are often fast |
///
/// `None` if the status is in the trailers, as in gRPC, or at the end of the body, as in gRPC-Web. The layer then reads it from
/// there when the body has ended.
///
/// ```
/// use http::Response;
/// use plimsoll::Outcome;
/// use plimsoll_tower::{ResponseHead, outcome_of};
///
/// let response = Response::builder().status(503).body(())?;
/// assert_eq!(outcome_of(ResponseHead::of(&response)), Some(Outcome::Overload));
/// # Ok::<(), http::Error>(())
/// ```
///
/// A failed call of gRPC without a message has its status in the headers:
///
/// ```
/// # use http::Response;
/// # use plimsoll::Outcome;
/// # use plimsoll_tower::{ResponseHead, outcome_of};
/// let failed = Response::builder().header("content-type", "application/grpc").header("grpc-status", "14").body(())?;
/// assert_eq!(outcome_of(ResponseHead::of(&failed)), Some(Outcome::Overload));
/// # Ok::<(), http::Error>(())
/// ```
#[must_use]
pub fn outcome_of(head: ResponseHead<'_>) -> Option<Outcome> {
    match head.status() {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Some(Outcome::Overload),
        StatusCode::OK if grpc_of(head.headers()).is_some() => grpc_outcome(head.headers()),
        status if status.is_server_error() => Some(Outcome::Ignore),
        _ => Some(Outcome::Success),
    }
}

/// The outcome in trailers.
pub(super) fn outcome_of_trailers(trailers: &HeaderMap) -> Outcome {
    grpc_outcome(trailers).unwrap_or(Outcome::Ignore)
}

/// The variant of gRPC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Grpc {
    /// With trailers of HTTP.
    Plain,
    /// With trailers in its body, which may be in the text form.
    Web { is_text: bool },
}

/// The variant by the content type, with or without a format or parameters.
pub(super) fn grpc_of(headers: &HeaderMap) -> Option<Grpc> {
    let value = headers.get(CONTENT_TYPE)?.as_bytes();
    let is = |name: &str| {
        let (start, rest) = value.split_at_checked(name.len())?;
        let ends = matches!(rest.first(), None | Some(b'+' | b';' | b' '));
        (ends && start.eq_ignore_ascii_case(name.as_bytes())).then_some(())
    };
    is("application/grpc")
        .map(|()| Grpc::Plain)
        .or_else(|| is("application/grpc-web").map(|()| Grpc::Web { is_text: false }))
        .or_else(|| is("application/grpc-web-text").map(|()| Grpc::Web { is_text: true }))
}

fn grpc_outcome(headers: &HeaderMap) -> Option<Outcome> {
    let status = headers.get("grpc-status")?;
    Some(outcome_of_status(status.as_bytes()))
}

/// The outcome of a gRPC status.
pub(super) fn outcome_of_status(status: &[u8]) -> Outcome {
    match status {
        // OK, cancelled, and errors of the caller.
        b"0" | b"1" | b"3" | b"5" | b"6" | b"7" | b"9" | b"10" | b"11" | b"12" | b"16" => {
            Outcome::Success
        }
        b"4" | b"8" | b"14" => Outcome::Overload,
        _ => Outcome::Ignore,
    }
}
