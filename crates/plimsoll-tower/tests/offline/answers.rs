//! What callers are told.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, StatusCode};
use plimsoll::{Denied, Moment, Reason, Standing};
use plimsoll_tower::Head;
use plimsoll_tower::answer::{
    self, Class, Fields, LimitStatus, PROBLEM_JSON, Unit, is_grpc, retry_seconds,
};

pub(crate) fn rate_limit(statuses: &[LimitStatus<'_>]) -> Option<HeaderValue> {
    let mut headers = HeaderMap::new();
    Fields::STANDARD.write(&mut headers, statuses);
    headers.remove("ratelimit")
}

pub(crate) fn rate_limit_policy(statuses: &[LimitStatus<'_>]) -> Option<HeaderValue> {
    let mut headers = HeaderMap::new();
    Fields::STANDARD.write(&mut headers, statuses);
    headers.remove("ratelimit-policy")
}

fn problem(denied: &Denied, retry_seconds: Option<u64>) -> bytes::Bytes {
    answer::problem(Class::of(denied), denied, retry_seconds)
}

fn grpc_refusal(denied: &Denied) -> HeaderMap {
    answer::grpc_refusal(Class::of(denied), denied)
}

const ALL: [Reason; 14] = [
    Reason::Exhausted,
    Reason::TooLarge,
    Reason::NoKey,
    Reason::QueueFull,
    Reason::Evicted,
    Reason::TimedOut,
    Reason::TooSoon,
    Reason::SoftThrottle,
    Reason::LockedOut,
    Reason::KeysFull,
    Reason::Saturated,
    Reason::Shed,
    Reason::Closed,
    Reason::Unavailable,
];

fn denied(reason: Reason, wait: Option<Duration>) -> Denied {
    let now = Moment::ORIGIN;
    let ready_at = wait.map(|wait| now.plus(wait));
    Denied::new(reason).with_ready_at(now, ready_at)
}

#[test]
fn each_reason_has_its_status() {
    for reason in ALL {
        let (with_hint, without) = match reason {
            Reason::Exhausted => (Class::Quota, Class::Capacity),
            Reason::TooSoon | Reason::SoftThrottle | Reason::LockedOut => {
                (Class::Quota, Class::Quota)
            }
            Reason::TooLarge => (Class::TooLarge, Class::TooLarge),
            Reason::NoKey => (Class::NoKey, Class::NoKey),
            _ => (Class::Capacity, Class::Capacity),
        };
        let hinted = denied(reason, Some(Duration::from_secs(1)));
        assert_eq!(Class::of(&hinted), with_hint, "{reason}");
        assert_eq!(Class::of(&Denied::new(reason)), without, "{reason}");
    }
    for (class, status, grpc) in [
        (Class::Quota, StatusCode::TOO_MANY_REQUESTS, 8),
        (Class::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, 8),
        (Class::NoKey, StatusCode::BAD_REQUEST, 3),
        (Class::Capacity, StatusCode::SERVICE_UNAVAILABLE, 14),
    ] {
        assert_eq!((class.status(), class.grpc_code()), (status, grpc));
    }
}

#[test]
fn a_full_concurrency_limit_is_shedding_and_a_used_up_rate_is_a_quota() {
    use plimsoll::{Concurrency, Gate, TokenBucket};

    let slots = Gate::new(Concurrency::new(1));
    let _held = slots.try_acquire(1).unwrap();
    let refusal = slots.try_acquire(1).unwrap_err();
    assert_eq!(Class::of(&refusal), Class::Capacity);
    let rate = Gate::new(TokenBucket::per_second(1));
    drop(rate.try_acquire(1).unwrap());
    let refusal = rate.try_acquire(1).unwrap_err();
    assert_eq!(Class::of(&refusal), Class::Quota);
    let refusal = rate.try_acquire(2).unwrap_err();
    assert_eq!(Class::of(&refusal), Class::TooLarge);
}

#[test]
fn fields_are_written_as_the_draft_writes_them() {
    let seconds = |count| Some(Duration::from_secs(count));
    let burst = Standing::new(100, 50).more_after(seconds(30));
    let daily = Standing::new(1000, 10);
    let statuses = [
        LimitStatus::new("burst", burst.window(seconds(60))),
        LimitStatus::new("daily", daily.window(seconds(86_400))),
    ];
    let policy = rate_limit_policy(&statuses).unwrap();
    assert_eq!(policy, r#""burst";q=100;w=60, "daily";q=1000;w=86400"#);
    let limits = rate_limit(&statuses).unwrap();
    assert_eq!(limits, r#""burst";r=50;t=30, "daily";r=10"#);

    let peruser = LimitStatus::new("peruser", Standing::new(65_535, 0).window(seconds(10)));
    let peruser = peruser.unit(Unit::ContentBytes).partition(b"\xb1\xd7\xe3");
    let policy = rate_limit_policy(&[peruser]).unwrap();
    let expected = r#""peruser";q=65535;qu="content-bytes";w=10;pk=:sdfj:"#;
    assert_eq!(policy, expected);

    let slots = LimitStatus::new("slots", Standing::new(4, 1).returns(true));
    let policy = rate_limit_policy(&[slots]).unwrap();
    assert_eq!(policy, r#""slots";q=4;qu="concurrent-requests""#);

    // A window that is no whole number of seconds cannot be written.
    let quick = Standing::new(1, 1).window(Duration::from_millis(1500));
    let quick = LimitStatus::new("quick", quick);
    assert_eq!(rate_limit_policy(&[quick]).unwrap(), r#""quick";q=1"#);

    assert_eq!(rate_limit(&[]), None);
    assert_eq!(rate_limit_policy(&[]), None);
}

#[test]
fn names_that_cannot_stand_in_a_header_are_encoded() {
    let named = |name| LimitStatus::new(name, Standing::new(0, 0));
    for (name, written) in [
        (r#"a "b" \c"#, r#""a \"b\" \\c";r=0"#),
        ("caf\u{e9}", r#""caf%C3%A9";r=0"#),
        ("a\r\nb: c\0", r#""a%0D%0Ab: c%00";r=0"#),
        ("\u{7f}100%", r#""%7F100%";r=0"#),
        ("", r#""";r=0"#),
    ] {
        assert_eq!(rate_limit(&[named(name)]).unwrap(), written);
    }
}

#[test]
fn x_fields_tell_of_the_limit_with_least_left() {
    let seconds = |count| Some(Duration::from_secs(count));
    let status = |limit, remaining, reset| {
        LimitStatus::new("any", Standing::new(limit, remaining).reset(reset))
    };
    let told = |headers: &HeaderMap| {
        ["limit", "remaining", "reset"].map(|end| {
            let value = headers.get(format!("x-ratelimit-{end}"))?;
            value.to_str().ok()?.parse::<u64>().ok()
        })
    };
    let mut headers = HeaderMap::new();
    let statuses = [
        status(100, 7, seconds(3)),
        status(10, 5, seconds(1)),
        status(20, 5, Some(Duration::from_millis(1001))),
    ];
    Fields::X.write(&mut headers, &statuses);
    assert_eq!(told(&headers), [Some(20), Some(5), Some(2)]);
    // A layer further out with more left does not hide it, one with less does, and takes the reset with it.
    Fields::X.write(&mut headers, &[status(50, 6, seconds(9))]);
    assert_eq!(told(&headers), [Some(20), Some(5), Some(2)]);
    Fields::X.write(&mut headers, &[status(50, 4, None)]);
    assert_eq!(told(&headers), [Some(50), Some(4), None]);
    assert_eq!(headers.get("ratelimit"), None);

    let mut full = HeaderMap::new();
    Fields::X.write(&mut full, &[status(3, 3, None)]);
    assert_eq!(told(&full), [Some(3), Some(3), Some(0)]);
    let mut none = HeaderMap::new();
    Fields::NONE.write(&mut none, &statuses);
    Fields::ALL.write(&mut none, &[]);
    assert!(none.is_empty());
}

#[test]
fn nested_layers_make_a_longer_list() {
    let status = |name| LimitStatus::new(name, Standing::new(1, 1));
    let mut headers = HeaderMap::new();
    Fields::STANDARD.write(&mut headers, &[status("inner")]);
    Fields::default().write(&mut headers, &[status("outer")]);
    let lines: Vec<_> = headers.get_all("ratelimit").iter().collect();
    assert_eq!(lines, [r#""inner";r=1"#, r#""outer";r=1"#]);
    assert_eq!(headers.get_all("ratelimit-policy").iter().count(), 2);
}

#[test]
fn a_wait_is_never_rounded_down() {
    let wait = |nanos| {
        let denied = denied(Reason::Exhausted, Some(Duration::from_nanos(nanos)));
        retry_seconds(&denied, &[]).unwrap()
    };
    for (nanos, seconds) in [
        (0, 0),
        (1, 1),
        (999_999_999, 1),
        (1_000_000_000, 1),
        (1_000_000_001, 2),
    ] {
        assert_eq!(wait(nanos), seconds);
    }
    assert_eq!(retry_seconds(&Denied::new(Reason::Shed), &[]), None);
}

#[test]
fn a_retry_is_not_earlier_than_what_was_announced() {
    let refusal = denied(Reason::Exhausted, Some(Duration::from_secs(2))).with_limiter("burst");
    let status = |name, more| {
        let more = Some(Duration::from_secs(more));
        LimitStatus::new(name, Standing::new(1, 0).more_after(more))
    };
    let announced = [status("burst", 5), status("daily", 500)];
    assert_eq!(retry_seconds(&refusal, &announced), Some(5));
    assert_eq!(retry_seconds(&refusal, &announced[1..]), Some(2));
    // Told by the refusal itself, both are the same number.
    let own = [LimitStatus::of(&refusal)];
    assert_eq!(retry_seconds(&refusal, &own), Some(2));
    assert_eq!(rate_limit(&own).unwrap(), r#""burst";r=0;t=2"#);
    let unnamed = denied(Reason::TooSoon, Some(Duration::from_millis(1)));
    let own = [LimitStatus::of(&unnamed)];
    assert_eq!(rate_limit(&own).unwrap(), r#""default";r=0;t=1"#);
}

#[test]
fn a_problem_says_which_limit_and_no_more() {
    for reason in ALL {
        let refusal = denied(reason, None).with_limiter("api");
        let body: serde_json::Value = serde_json::from_slice(&problem(&refusal, None)).unwrap();
        let class = Class::of(&refusal);
        let expected = serde_json::json!({
            "type": class.problem_type(),
            "title": class.title(),
            "status": class.status().as_u16(),
            "detail": reason.phrase(),
            "violated-policies": ["api"],
        });
        assert_eq!(body, expected);
    }
    let unnamed = problem(&Denied::new(Reason::TooSoon), Some(3));
    let body: serde_json::Value = serde_json::from_slice(&unnamed).unwrap();
    assert_eq!(body["violated-policies"], serde_json::json!(["default"]));
    assert_eq!(body["retry-after"], 3);
    assert_eq!(PROBLEM_JSON, "application/problem+json");
}

#[test]
fn grpc_is_known_by_its_content_type() {
    let of = |content_type: &str| {
        let request = Request::post("/").header("content-type", content_type);
        is_grpc(&Head::of(&request.body(()).unwrap()))
    };
    for grpc in [
        "application/grpc",
        "Application/gRPC",
        "application/grpc+proto",
        "application/grpc;charset=utf-8",
        "application/grpc ; x=y",
    ] {
        assert!(of(grpc), "{grpc}");
    }
    for other in [
        "",
        "application/grpc-web",
        "application/grpc-web+proto",
        "application/json",
    ] {
        assert!(!of(other), "{other}");
    }
    assert!(!is_grpc(&Head::of(&Request::new(()))));
}

#[test]
fn grpc_refusals_say_when_to_come_back_if_anybody_knows() {
    let headers = grpc_refusal(&Denied::new(Reason::Shed));
    assert_eq!(headers["content-type"], "application/grpc");
    assert_eq!(headers["grpc-status"], "14");
    assert_eq!(headers["grpc-message"], "shed to protect other work");
    assert_eq!(headers.len(), 3);

    let headers = grpc_refusal(&Denied::new(Reason::TooLarge));
    assert_eq!(headers["grpc-status"], "8");
    assert_eq!(headers["grpc-retry-pushback-ms"], "-1", "never");
    assert_eq!(headers.get("grpc-status-details-bin"), None);

    let named = Denied::new(Reason::Closed).with_limiter("100%41 \u{e4}\n");
    let message = &grpc_refusal(&named)["grpc-message"];
    assert_eq!(message, "100%2541 %C3%A4%0A: the limiter is closed");

    let centuries = Some(Duration::from_secs(10_000_000_000));
    let headers = grpc_refusal(&denied(Reason::LockedOut, centuries));
    assert_eq!(headers["grpc-retry-pushback-ms"], i32::MAX.to_string());
}

#[test]
fn numbers_have_as_many_digits_as_they_need() {
    for number in [0, 1, 9, 10, 19, 99, 100, 105, 110, 999, 1000, 123_456] {
        let mut headers = HeaderMap::new();
        Fields::X.write(
            &mut headers,
            &[LimitStatus::new("api", Standing::new(number, number))],
        );
        assert_eq!(headers["x-ratelimit-remaining"], number.to_string());
        assert_eq!(headers["x-ratelimit-limit"], number.to_string());
    }
}
