use bytes::Bytes;
use http::HeaderValue;
use plimsoll::{Denied, Metadata, MetadataValue};

use super::limit_status::seconds;
use super::structured::{Out, written};
use super::{Class, LimitStatus};

/// The content type of a [`problem`].
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Returns the body of a refusal as a problem of RFC 9457: the class, the name of the limit, and the time to retry.
///
/// The name of the limit is written as in the header fields. The [metadata](plimsoll::Metadata) of the limiter follows as
/// extension members: its code as `code`, and its pairs by their names, times in seconds, rounded up. Its phrase is the detail.
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
///
/// ```
/// # use plimsoll::{Denied, Metadata, Reason};
/// # use plimsoll_tower::answer::{Class, problem};
/// let about = Metadata::new().phrase("Too many bookings").code("BOOK-429").pair("plan", "free").pair("seats", 4);
/// let denied = Denied::new(Reason::LockedOut).with_metadata(&about);
/// let body = problem(Class::of(&denied), &denied, None);
/// let members = r#""detail":"Too many bookings","violated-policies":["default"],"code":"BOOK-429","plan":"free","seats":4}"#;
/// assert!(body.ends_with(members.as_bytes()));
/// ```
#[must_use]
pub fn problem(class: Class, denied: &Denied, retry_seconds: Option<u64>) -> Bytes {
    written(|out| {
        out.put(begins(class).as_bytes());
        out.json_string(denied.phrase());
        out.put(br#","violated-policies":["#);
        out.string(denied.limiter().unwrap_or(LimitStatus::UNNAMED));
        out.put(b"]");
        if let Some(seconds) = retry_seconds {
            out.put(br#","retry-after":"#);
            out.integer(seconds);
        }
        if let Some(about) = denied.metadata() {
            let code = about.get(Metadata::CODE).map(|code| (Metadata::CODE, code));
            for (name, value) in code.into_iter().chain(about.pairs()) {
                out.put(b",");
                out.string(name);
                out.put(b":");
                member(out, value);
            }
        }
        out.put(b"}");
    })
}

/// The beginning of the problems of a class, up to the detail.
const fn begins(class: Class) -> &'static str {
    macro_rules! begins {
        ($kind:literal, $title:literal, $status:literal) => {
            concat!(
                r#"{"type":""#,
                $kind,
                r#"","title":""#,
                $title,
                r#"","status":"#,
                $status,
                r#","detail":"#
            )
        };
    }
    match class {
        Class::Quota => begins!(
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "Quota exceeded",
            "429"
        ),
        Class::TooLarge => begins!("about:blank", "Content Too Large", "413"),
        Class::NoKey => begins!("about:blank", "Bad Request", "400"),
        Class::Misconfigured => begins!("about:blank", "Internal Server Error", "500"),
        Class::Capacity => begins!(
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "Temporarily reduced capacity",
            "503"
        ),
    }
}

/// A value as JSON writes it.
fn member(out: &mut dyn Out, value: MetadataValue<'_>) {
    match value {
        MetadataValue::Number(number) => out.put(itoa::Buffer::new().format(number).as_bytes()),
        MetadataValue::Flag(true) => out.put(b"true"),
        MetadataValue::Flag(false) => out.put(b"false"),
        MetadataValue::Time(span) => out.integer(seconds(span)),
        MetadataValue::Text(text) => out.json_string(text),
        other => out.json_string(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::begins;
    use crate::answer::Class;

    #[test]
    fn problems_begin_with_the_type_the_title_and_the_status_of_their_class() {
        for class in [
            Class::Quota,
            Class::TooLarge,
            Class::NoKey,
            Class::Misconfigured,
            Class::Capacity,
        ] {
            let (kind, title) = (class.problem_type(), class.title());
            let status = class.status().as_u16();
            let written =
                format!(r#"{{"type":"{kind}","title":"{title}","status":{status},"detail":"#);
            assert_eq!(begins(class), written);
        }
    }
}
