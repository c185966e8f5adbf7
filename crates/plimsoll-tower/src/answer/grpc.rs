use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use plimsoll::{Denied, Metadata};

use super::structured::{Out, runs, value};
use super::{Class, fields, protobuf};
use crate::Head;

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
static GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Returns whether a request is gRPC, by its content type: `application/grpc`, also with a format or parameters.
///
/// gRPC-Web does not count as gRPC: an outer layer translates it, and without such a layer the client expects plain
/// HTTP.
#[must_use]
pub fn is_grpc(head: &Head<'_>) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let Some(value) = head.headers().get(CONTENT_TYPE) else {
        return false;
    };
    let Some((start, rest)) = value.as_bytes().split_at_checked(GRPC.len()) else {
        return false;
    };
    start.eq_ignore_ascii_case(GRPC) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Returns the headers of a refusal in gRPC: a response with status 200 and without a body, whose headers are its trailers.
///
/// The time to retry is in it twice: as `grpc-retry-pushback-ms`, which clients with a retry policy obey, and as a
/// `google.rpc.RetryInfo` in the details, for other clients. For a request that is too large, the pushback tells clients not to
/// retry. The [metadata](plimsoll::Metadata) of the limiter becomes a `google.rpc.ErrorInfo` in the details: its reason is the
/// code, or else the name of the [reason](plimsoll::Reason), its domain the name of the limiter.
///
/// ```
/// use plimsoll::{Denied, Moment, Reason};
/// use plimsoll_tower::answer::{Class, grpc_refusal};
/// use std::time::Duration;
///
/// let now = Moment::ORIGIN;
/// let denied = Denied::new(Reason::Exhausted)
///     .with_limiter("api")
///     .with_ready_at(now, Some(now.plus(Duration::from_micros(1500))));
/// let headers = grpc_refusal(Class::of(&denied), &denied);
/// assert_eq!(headers["grpc-status"], "8");
/// assert_eq!(headers["grpc-message"], "api: the limit is used up");
/// assert_eq!(headers["grpc-retry-pushback-ms"], "2");
/// ```
#[must_use]
pub fn grpc_refusal(class: Class, denied: &Denied) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(5);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(&GRPC_STATUS, fields::integer(class.grpc_code().into()));
    let phrase = denied.phrase();
    let message = match denied.limiter() {
        Some(name) => format!("{name}: {phrase}"),
        None => phrase.to_owned(),
    };
    if let Some(message) = value(|out| percent_encoded(out, &message)) {
        headers.insert(&GRPC_MESSAGE, message);
    }
    if class == Class::TooLarge {
        headers.insert(&GRPC_PUSHBACK, HeaderValue::from_static("-1"));
    } else if let Some(wait) = denied.retry_after() {
        headers.insert(&GRPC_PUSHBACK, fields::integer(milliseconds(wait)));
    }
    let retry = denied.retry_after().filter(|_| class != Class::TooLarge);
    let details: Vec<_> = { retry.map(protobuf::retry_info).into_iter() }
        .chain(denied.metadata().map(|about| error_info(about, denied)))
        .collect();
    if !details.is_empty() {
        let status = protobuf::status(class.grpc_code(), &message, &details);
        if let Ok(details) = STANDARD_NO_PAD.encode(status).try_into() {
            headers.insert(&GRPC_DETAILS, details);
        }
    }
    headers
}

fn error_info(about: &Metadata, denied: &Denied) -> Vec<u8> {
    let code = about.get(Metadata::CODE).map(|code| code.to_string());
    let reason = code.as_deref().unwrap_or(denied.reason().as_str());
    let pairs = about.pairs().map(|(name, value)| (name, value.to_string()));
    protobuf::error_info(reason, denied.limiter().unwrap_or_default(), pairs)
}

/// Rounded up, and at most what fits into the 32 bits that clients read.
fn milliseconds(span: Duration) -> u64 {
    let most = i32::MAX.unsigned_abs().into();
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).map_or(most, |millis| millis.min(most))
}

/// Writes printable ASCII except `%` unchanged, and everything else as `%` and two digits.
fn percent_encoded(out: &mut dyn Out, text: &str) {
    runs(text, b"%", |run, odd| {
        out.put(run);
        if let Some(byte) = odd {
            out.percent(byte);
        }
    });
}
