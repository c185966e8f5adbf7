//! What a call has used, charged to callers that hang up, to calls that last, and to several layers.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::stream;
use plimsoll::{Gate, ManualClock, Quota, SlidingLog, TokenBucket};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, Usage};

use super::clients::http1;
use super::serve;
use crate::eventually::{eventually, soon};

const TOKENS: u64 = 10_000;
const ESTIMATE: u64 = 1000;

fn tokens(time: &ManualClock) -> Gate<TokenBucket> {
    let rule = TokenBucket::per_second(TOKENS);
    Gate::builder(rule).clock(time.clock()).build()
}

fn budget(gate: &Gate<TokenBucket>) -> RequestLimit<Gate<TokenBucket>> {
    let limit = RequestLimit::new(gate.clone());
    limit.cost(|_| ESTIMATE).charge_usage()
}

/// Says when it is dropped.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What is left after a caller hangs up on a call that says `report` of its usage, and then never ends.
async fn left_after_hang_up(mid_body: bool, report: fn(&Usage)) -> u64 {
    let gate = tokens(&ManualClock::new());
    let (began, ended) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (begin, end) = (Arc::clone(&began), Arc::clone(&ended));
    let handler = async move |Extension(usage): Extension<Usage>| {
        let ends = Ends(end);
        report(&usage);
        begin.store(true, Ordering::SeqCst);
        if !mid_body {
            pending::<()>().await;
        }
        // One word, and then nothing for ever.
        let words = stream::unfold((ends, true), |(ends, first)| async move {
            if !first {
                pending::<()>().await;
            }
            Some((Ok::<_, std::io::Error>(Bytes::from("word")), (ends, false)))
        });
        Body::from_stream(words)
    };
    let layer = HttpLimitLayer::new(budget(&gate));
    let address = serve(Router::new().route("/", get(handler)).layer(layer)).await;
    let call = tokio::spawn(async move {
        let mut response = http1().get(url(address)).send().await.unwrap();
        response.chunk().await.unwrap();
        response
    });
    if mid_body {
        drop(soon(call).await.unwrap());
    } else {
        eventually("it is called", || began.load(Ordering::SeqCst)).await;
        call.abort();
    }
    eventually("the server notices", || ended.load(Ordering::SeqCst)).await;
    gate.snapshot().available()
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

/// The whole estimate was given back, so that whoever hung up in time had tokens for nothing.
#[tokio::test]
async fn a_caller_that_hangs_up_before_anything_is_reported_pays_the_estimate() {
    assert_eq!(left_after_hang_up(false, |_| {}).await, 9000);
    assert_eq!(left_after_hang_up(true, |_| {}).await, 9000);
    assert_eq!(left_after_hang_up(true, |usage| usage.add(10)).await, 9000);
}

#[tokio::test]
async fn a_caller_that_hangs_up_pays_what_was_reported_if_that_is_more() {
    let report = |usage: &Usage| usage.add(2500);
    assert_eq!(left_after_hang_up(false, report).await, 7500);
    assert_eq!(left_after_hang_up(true, report).await, 7500);
}

#[tokio::test]
async fn a_caller_that_hangs_up_pays_what_the_handler_says_is_all() {
    let report = |usage: &Usage| {
        usage.add(30);
        usage.finish();
    };
    assert_eq!(left_after_hang_up(false, report).await, 9970);
    assert_eq!(left_after_hang_up(true, report).await, 9970);
}

/// What a call used was charged when it ended, to a bucket that had been full for a long time.
#[tokio::test]
async fn the_refill_during_a_call_pays_for_what_it_used() {
    let time = ManualClock::new();
    for (estimate, used, left) in [(1, 200, 10_000), (5000, 200, 10_000), (1, 15_000, 5000)] {
        let gate = tokens(&time);
        let hand = time.clone();
        let handler = async move |Extension(usage): Extension<Usage>| {
            hand.advance(Duration::from_secs(1));
            usage.add(used);
            "done"
        };
        let limit = RequestLimit::new(gate.clone())
            .cost(move |_| estimate)
            .charge_usage();
        let router = Router::new().route("/", get(handler));
        let address = serve(router.layer(HttpLimitLayer::new(limit))).await;
        let response = soon(http1().get(url(address)).send()).await.unwrap();
        assert_eq!(soon(response.text()).await.unwrap(), "done");
        eventually("it is settled", || gate.snapshot().available() == left).await;
    }
}

/// The inner layer put its own count in the place of the outer one's, which then saw nothing used.
#[tokio::test]
async fn every_layer_around_a_handler_sees_what_it_used() {
    let time = ManualClock::new();
    let (outer, middle, inner) = (tokens(&time), tokens(&time), tokens(&time));
    let handler = async |Extension(usage): Extension<Usage>| {
        usage.add(700);
        "done"
    };
    let router = Router::new()
        .route("/", get(handler))
        .layer(HttpLimitLayer::new(budget(&inner)))
        .layer(HttpLimitLayer::new(budget(&middle)))
        .layer(HttpLimitLayer::new(budget(&outer)));
    let address = serve(router).await;
    let response = soon(http1().get(url(address)).send()).await.unwrap();
    assert_eq!(soon(response.text()).await.unwrap(), "done");
    for gate in [inner, middle, outer] {
        eventually("700 are charged", || gate.snapshot().available() == 9300).await;
    }
}

/// What a call turned out not to cost was taken off somebody else's entry if its own had left the window: 20 were let in
/// where 10 are allowed.
#[tokio::test]
async fn a_charge_that_comes_after_its_window_frees_nobody_elses_place() {
    let time = ManualClock::new();
    let log = SlidingLog::new(Quota::new(10, Duration::from_secs(10)));
    let gate = Gate::builder(log).clock(time.clock()).build();
    let (go, gone) = tokio::sync::watch::channel(false);
    let handler = async move |Extension(_usage): Extension<Usage>| {
        let mut gone = gone.clone();
        gone.wait_for(|gone| *gone).await.unwrap();
        "done"
    };
    let limit = RequestLimit::new(gate.clone()).cost(|_| 10).charge_usage();
    let router = Router::new().route("/", get(handler));
    let address = serve(router.layer(HttpLimitLayer::new(limit))).await;
    let slow = tokio::spawn(http1().get(url(address)).send());
    eventually("it is let in", || gate.snapshot().available() == 0).await;
    time.advance(Duration::from_secs(10));
    gate.try_acquire(10).unwrap().forget();
    go.send(true).unwrap();
    let response = soon(slow).await.unwrap().unwrap();
    assert_eq!(soon(response.text()).await.unwrap(), "done");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(gate.snapshot().available(), 0);
}
