//! Partners of a file: known rates, learned rates, and what stays when the file changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use plimsoll_config::{Config, Format};
use plimsoll_engine::Limits;
use tower::{Layer, ServiceExt, service_fn};

use crate::limits;

fn config(text: &str) -> Config {
    let config = Config::from_str("limits.yaml", text, Format::Yaml);
    config.unwrap_or_else(|error| panic!("{error}"))
}

/// Calls a partner that answers this, and says what came of it.
async fn call(limits: &Limits, status: StatusCode, retry_after: Option<u64>) -> Option<u16> {
    let answer = service_fn(move |_: Request<()>| async move {
        let response = Response::builder().status(status);
        let response = match retry_after {
            Some(seconds) => response.header("retry-after", seconds),
            None => response,
        };
        Ok::<_, Infallible>(response.body(()).expect("it is right"))
    });
    let client = limits.partner("maps").expect("it is named").layer(answer);
    let answer = client.oneshot(Request::new(())).await;
    answer.ok().map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn a_known_rate_is_kept_and_pauses_are_heeded() {
    let (limits, time) = limits("partners: { maps: { rate: 2/s, max_pause: 1m } }");
    let ok = StatusCode::OK;
    assert_eq!(call(&limits, ok, None).await, Some(200));
    assert_eq!(call(&limits, ok, None).await, Some(200));
    assert_eq!(call(&limits, ok, None).await, None, "2 in a second");
    time.advance(Duration::from_secs(1));
    let refused = call(&limits, StatusCode::TOO_MANY_REQUESTS, Some(3600));
    assert_eq!(refused.await, Some(429));
    time.advance(Duration::from_secs(59));
    assert_eq!(call(&limits, ok, None).await, None, "it said to wait");
    time.advance(Duration::from_secs(1));
    assert_eq!(call(&limits, ok, None).await, Some(200), "a minute at most");
}

/// A partner that takes 50 in a second, which nobody knows.
#[tokio::test]
async fn a_rate_that_nobody_knows_is_learned() {
    let (limits, time) = limits("partners: { maps: { learn: 10/s, min: 1/s, max: 1000/s } }");
    let in_this_second = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&in_this_second);
    let partner = service_fn(move |_: Request<()>| {
        let refused = counted.fetch_add(1, Ordering::Relaxed) >= 50;
        async move {
            let status = match refused {
                true => StatusCode::TOO_MANY_REQUESTS,
                false => StatusCode::OK,
            };
            let response = Response::builder().status(status);
            let response = match refused {
                true => response.header("retry-after", "1"),
                false => response,
            };
            Ok::<_, Infallible>(response.body(()).expect("it is right"))
        }
    });
    let client = limits.partner("maps").expect("it is named").layer(partner);
    for step in 0..200_000 {
        if step % 1000 == 0 {
            in_this_second.store(0, Ordering::Relaxed);
        }
        let _ = client.clone().oneshot(Request::new(())).await;
        time.advance(Duration::from_millis(1));
    }
    let learned = || limits.partner("maps").expect("it is named").learned_rate();
    let rate = learned().expect("it is learned");
    assert!((35.0..=60.0).contains(&rate), "{rate}");

    // Another file with other bounds: what was learned stays.
    let changed = "partners: { maps: { learn: 10/s, max: 2000/s, queue: { bound: 5 } } }";
    limits.replace(&config(changed)).expect("it can be built");
    assert_eq!(learned(), Some(rate));
    let lower = "partners: { maps: { learn: 10/s, max: 20/s } }";
    limits.replace(&config(lower)).expect("it can be built");
    assert_eq!(learned(), Some(20.0));
    limits
        .replace(&config("limits: { a: 1/s }"))
        .expect("it can be built");
    assert!(limits.partner("maps").is_none());
}

#[tokio::test]
async fn calls_that_wait_stay_when_the_file_changes() {
    let file = "partners: { maps: { rate: 1/s, queue: { bound: 5 } } }";
    let (limits, time) = limits(file);
    assert_eq!(call(&limits, StatusCode::OK, None).await, Some(200));
    let waiting = tokio::spawn({
        let limits = limits.clone();
        async move { call(&limits, StatusCode::OK, None).await }
    });
    let waiters = || {
        let layer = limits.partner("maps").expect("it is named");
        layer.limiter().snapshot().waiters()
    };
    while waiters() == 0 {
        tokio::task::yield_now().await;
    }
    let slower = file.replace("1/s", "1/2s");
    limits.replace(&config(&slower)).expect("it can be built");
    assert_eq!(waiters(), 1);
    time.advance(Duration::from_secs(2));
    assert_eq!(waiting.await.expect("it ends"), Some(200));
}
