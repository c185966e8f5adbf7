//! What other people's answers say about their limits, and a client that heeds it.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Response, StatusCode};
use plimsoll::{Gate, ManualClock, Pausable, Queue, TokenBucket};
use plimsoll_tower::partner::{PartnerLayer, UpstreamLimits};
use proptest::prelude::*;
use tower::{Layer, Service, ServiceExt, service_fn};

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&'static str, &str)| {
        (
            HeaderName::from_static(name),
            value.parse().expect("a value"),
        )
    };
    fields.iter().map(field).collect()
}

/// 1994-11-06 08:49:37 UTC.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn pause(fields: &[(&'static str, &str)]) -> Option<u64> {
    let told = UpstreamLimits::read(&headers(fields), now());
    told.pause(StatusCode::TOO_MANY_REQUESTS)
        .map(|span| span.as_secs())
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    for (value, expected) in [
        ("120", Some(120)),
        (" 7 ", Some(7)),
        ("1.5", Some(2)),
        ("0", None),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
        ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
        ("Sun Nov  6 08:50:37 1994", Some(60)),
        // In the past.
        ("Sun, 06 Nov 1994 08:49:00 GMT", None),
    ] {
        assert_eq!(pause(&[("retry-after", value)]), expected, "{value}");
    }
    // Whosever clock is wrong.
    let date = ("date", "Sun, 06 Nov 1994 08:50:00 GMT");
    let after = ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT");
    assert_eq!(pause(&[date, after]), Some(37));
    // Of several the longest counts.
    assert_eq!(
        pause(&[("retry-after", "5"), ("retry-after", "9")]),
        Some(9)
    );
    // Of what is not a refusal it says something else.
    let told = UpstreamLimits::read(&headers(&[("retry-after", "5")]), now());
    assert_eq!(told.pause(StatusCode::ACCEPTED), None);
}

#[test]
fn limits_are_read_in_all_their_forms() {
    for (fields, expected) in [
        (&[("ratelimit", r#""a";r=0;t=7"#)][..], Some(7)),
        (&[("ratelimit", r#""a";r=3;t=7, "b,;";r=0;t=2"#)], Some(2)),
        (
            &[("ratelimit", r#""a";r=0;t=7"#), ("ratelimit", "b;r=0;t=9")],
            Some(9),
        ),
        (&[("ratelimit", "limit=10, remaining=0, reset=4")], Some(4)),
        (
            &[("ratelimit-remaining", "0"), ("ratelimit-reset", "6")],
            Some(6),
        ),
        (
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "6")],
            Some(6),
        ),
        // As seconds and as milliseconds since 1970; 784111777 is 1994.
        (
            &[
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1784111777"),
            ],
            Some(1_000_000_000),
        ),
        (
            &[
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1784111777500"),
            ],
            Some(1_000_000_000),
        ),
        (
            &[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "6")],
            None,
        ),
        (&[("ratelimit", r#""a";r=0"#)], None),
        (&[("ratelimit", r#""a;r=0;t=7"#)], None),
        (&[("ratelimit", ",;=;\"\\\"")], None),
    ] {
        assert_eq!(pause(fields), expected, "{fields:?}");
    }
    let policy = r#""burst";q=100;w=60;qu="requests""#;
    let told = UpstreamLimits::read(
        &headers(&[
            ("ratelimit-policy", policy),
            ("ratelimit", r#""burst";r=5"#),
        ]),
        now(),
    );
    let [limit] = &told.limits[..] else {
        panic!("{told:?}")
    };
    assert_eq!((limit.quota, limit.remaining), (Some(100), Some(5)));
    assert_eq!(limit.window, Some(Duration::from_secs(60)));
    let many = (0..1000)
        .map(|n| format!("\"{n}\";r=0;t=1"))
        .collect::<Vec<_>>()
        .join(",");
    assert_eq!(
        UpstreamLimits::read(&headers(&[("ratelimit", &many)]), now())
            .limits
            .len(),
        16
    );
}

proptest! {
    /// Whatever a partner writes, it is read or not, and nobody panics.
    #[test]
    fn anything_can_be_read(value in "[ -~]{0,60}") {
        for name in ["retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-reset", "ratelimit-remaining", "date"] {
            let told = UpstreamLimits::read(&headers(&[(name, value.as_str())]), now());
            let _ = told.pause(StatusCode::SERVICE_UNAVAILABLE);
        }
    }

    /// What our own layer writes is what a client of ours reads.
    #[test]
    fn what_we_write_we_read(limit in 1_u64..1_000_000, used in 0_u64..1_000_000, wait in 1_u64..100_000) {
        use plimsoll_tower::answer::{Fields, LimitStatus};
        let remaining = limit.saturating_sub(used);
        let more = Duration::from_secs(wait);
        let standing = plimsoll::Standing::new(limit, remaining).more_after(more).reset(more);
        for fields in [Fields::STANDARD, Fields::X] {
            let mut headers = HeaderMap::new();
            fields.write(&mut headers, &[LimitStatus::new("api", standing)]);
            let told = UpstreamLimits::read(&headers, now());
            prop_assert_eq!(told.limits[0].quota, Some(limit));
            prop_assert_eq!(told.limits[0].remaining, Some(remaining));
            prop_assert_eq!(told.pause(StatusCode::OK), (remaining == 0).then_some(more));
        }
    }
}

#[tokio::test]
async fn nobody_asks_a_partner_before_it_said() {
    let time = ManualClock::new();
    let gate = Gate::builder(Pausable::new(TokenBucket::per_second(100)))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let layer = PartnerLayer::new(gate.clone())
        .max_pause(Duration::from_secs(50))
        .on_upstream_limits(move |told| log.lock().unwrap().push(told.retry_after));
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    let mut client = layer.layer(service_fn(move |after: Option<&'static str>| {
        count.set(count.get() + 1);
        let response = match after {
            Some(after) => Response::builder().status(429).header("retry-after", after),
            None => Response::builder(),
        };
        async move { Ok::<_, Infallible>(response.body(()).expect("a response")) }
    }));
    // Three answers, not the sum of what they say.
    for after in ["10", "30", "20"] {
        let call = client.ready().await.unwrap().call(Some(after));
        if after == "10" {
            assert_eq!(call.await.unwrap().status(), 429);
        } else {
            // It waits for its turn; what was under way answers too.
            drop(call);
            gate.pause_for(Duration::from_secs(after.parse().unwrap()));
        }
    }
    assert_eq!(asked.get(), 1);
    assert_eq!(
        gate.estimate(1).unwrap_err().retry_after(),
        Some(Duration::from_secs(30))
    );
    let mut waiting = std::pin::pin!(client.ready().await.unwrap().call(None));
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("the partner has said when"),
        () = tokio::task::yield_now() => {}
    }
    time.advance(Duration::from_secs(30));
    assert_eq!(waiting.await.unwrap().status(), 200);
    assert_eq!(asked.get(), 2);
    assert_eq!(*heard.lock().unwrap(), [Some(Duration::from_secs(10))]);

    // A partner that says nonsense is not obeyed for ever.
    let far = client.ready().await.unwrap().call(Some("999999999999"));
    assert_eq!(far.await.unwrap().status(), 429);
    assert_eq!(
        gate.estimate(1).unwrap_err().retry_after(),
        Some(Duration::from_secs(50))
    );
    assert!(gate.check_saturation().is_ok());
}
