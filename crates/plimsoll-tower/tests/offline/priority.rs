//! The priority of a request.

use http::{HeaderValue, Request};
use plimsoll::Priority::{self, Critical, NonCritical, Normal};
use plimsoll_tower::{Head, PriorityFrom, PriorityHeader};

fn of_lines(lines: &[&[u8]]) -> Priority {
    let mut request = Request::new(());
    for line in lines {
        let value = HeaderValue::from_bytes(line).unwrap();
        request.headers_mut().append("x-priority", value);
    }
    PriorityHeader::default().priority(&Head::of(&request))
}

/// What a well-known reader of this header makes of it, by its number: 0 critical, 1 normal, 2 non-critical,
/// everything else an index out of range. It takes out dashes and reads what is left as an enumeration: words,
/// numbers and lists of either.
const ELSEWHERE: [(&str, u32, Priority); 28] = [
    ("", 1, Normal),
    ("Critical", 0, Critical),
    ("critical", 0, Critical),
    ("criti-cal", 0, Normal),
    ("--critical", 0, Normal),
    ("NORMAL", 1, Normal),
    ("nor--mal", 1, Normal),
    ("noncritical", 2, NonCritical),
    ("non-critical", 2, NonCritical),
    ("NON-critical", 2, NonCritical),
    ("other", 1, Normal),
    ("0", 0, Normal),
    ("1", 1, Normal),
    ("2", 2, Normal),
    ("3", 3, Normal),
    ("7", 7, Normal),
    ("99", 99, Normal),
    ("-1", 1, Normal),
    ("+2", 2, Normal),
    (" critical ", 0, Critical),
    ("critical,normal", 1, Normal),
    ("critical,noncritical", 2, Normal),
    ("normal,noncritical", 3, Normal),
    ("critical, normal", 1, Normal),
    ("2147483648", 1, Normal),
    ("non critical", 1, Normal),
    ("1.0", 1, Normal),
    ("0x1", 1, Normal),
];

#[test]
fn three_words_are_priorities_and_everything_else_is_normal() {
    for (text, elsewhere, expected) in ELSEWHERE {
        assert_eq!(of_lines(&[text.as_bytes()]), expected, "{text:?}");
        // Whatever is critical here is critical there: nobody gains by this reader.
        assert!(expected != Critical || elsewhere == 0);
    }
    for text in ["\tnon-critical\t", "NonCritical", "NON-CRITICAL"] {
        assert_eq!(of_lines(&[text.as_bytes()]), NonCritical, "{text:?}");
    }
    for text in [
        "non--critical",
        "non-critical-",
        "non_critical",
        "critical;q=1",
    ] {
        assert_eq!(of_lines(&[text.as_bytes()]), Normal, "{text:?}");
    }
}

#[test]
fn lines_that_do_not_agree_are_normal() {
    assert_eq!(of_lines(&[]), Normal);
    assert_eq!(of_lines(&[b"critical"]), Critical);
    assert_eq!(of_lines(&[b"critical", b" CRITICAL"]), Critical);
    assert_eq!(of_lines(&[b"critical", b"normal"]), Normal);
    assert_eq!(of_lines(&[b"non-critical", b"critical"]), Normal);
    assert_eq!(of_lines(&[b"critical", b"critical", b"7"]), Normal);
}

#[test]
fn what_is_not_utf8_is_normal() {
    assert_eq!(of_lines(&[b"\xff\xfecritical"]), Normal);
    assert_eq!(of_lines(&[b"critical\xa0"]), Normal);
}

#[test]
fn an_endpoint_can_say_it_itself() {
    let request = Request::builder().header("x-importance", "critical");
    let request = request
        .header("x-priority", "non-critical")
        .body(())
        .unwrap();
    let head = Head::of(&request);
    assert_eq!(Critical.priority(&head), Critical);
    let named = PriorityHeader::named("X-Importance").unwrap();
    assert_eq!(named.priority(&head), Critical);
    assert!(PriorityHeader::named("not a name").is_err());
    let by_path = |head: &Head<'_>| match head.uri().path() {
        "/" => NonCritical,
        _ => Normal,
    };
    assert_eq!(by_path.priority(&head), NonCritical);
}
