use bytes::Bytes;
use http::HeaderValue;
use plimsoll::Denied;

use super::structured::written;
use super::{Class, LimitStatus};

/// The content type of a [`problem`].
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The body of a refusal, as RFC 9457 writes problems: what happened, which limit it was, when to come back.
///
/// The name of the limit is written as in the header fields.
///
/// ```
/// use plimsoll::{Denied, Reason};
/// use plimsoll_tower::answer::{Class, problem};
///
/// let denied = Denied::new(Reason::LockedOut).with_limiter("logins");
/// let body = problem(Class::of(&denied), &denied, Some(30));
/// assert_eq!(body, concat!(
///     r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
///     r#""title":"Quota exceeded","status":429,"detail":"locked out for exceeding the limit","#,
///     r#""violated-policies":["logins"],"retry-after":30}"#,
/// ));
/// ```
#[must_use]
pub fn problem(class: Class, denied: &Denied, retry_seconds: Option<u64>) -> Bytes {
    written(|out| {
        out.put(br#"{"type":"#);
        out.string(class.problem_type());
        out.put(br#","title":"#);
        out.string(class.title());
        out.put(br#","status":"#);
        out.put(class.status().as_str().as_bytes());
        out.put(br#","detail":"#);
        out.string(denied.reason().phrase());
        out.put(br#","violated-policies":["#);
        out.string(denied.limiter().unwrap_or(LimitStatus::UNNAMED));
        out.put(b"]");
        if let Some(seconds) = retry_seconds {
            out.put(br#","retry-after":"#);
            out.integer(seconds);
        }
        out.put(b"}");
    })
}
