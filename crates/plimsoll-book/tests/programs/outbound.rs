//! `docs/howto/outbound.md`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use plimsoll::{Gate, ManualClock, Pausable, Queue, TokenBucket};
use reqwest::{Method, Request};
use tower::{Service, ServiceExt};

use crate::server::serve;

#[path = "../../examples/outbound_client.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod outbound_client;

#[tokio::test]
async fn nobody_calls_before_the_partner_allows_it() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let partner = Router::new().route(
        "/",
        get(async move || match seen.fetch_add(1, Ordering::SeqCst) {
            0 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "60")]),
            _ => (StatusCode::OK, [("retry-after", "0")]),
        }),
    );
    let at = serve(partner).await;
    let time = ManualClock::new();
    let quota = Gate::builder(Pausable::new(TokenBucket::per_second(10)))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build();
    let mut client = outbound_client::partner(quota);
    let request = || Request::new(Method::GET, format!("http://{at}/").parse().expect("a URL"));

    let first = client
        .ready()
        .await
        .expect("it is ready")
        .call(request())
        .await;
    assert_eq!(first.expect("an answer").status(), 429);

    let second = async { client.ready().await?.call(request()).await };
    let mut second = pin!(second);
    for _ in 0..3 {
        time.advance(Duration::from_secs(19));
        let waits =
            poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending())).await;
        assert!(waits, "a minute has not passed");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    time.advance(Duration::from_secs(4));
    assert_eq!(second.await.expect("an answer").status(), 200);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn the_quota_is_ten_a_second() {
    let quota = outbound_client::quota();
    let granted = (0..100)
        .take_while(|_| quota.try_acquire(1).is_ok())
        .count();
    assert!((10..=12).contains(&granted), "{granted}");
}
