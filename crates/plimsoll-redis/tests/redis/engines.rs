//! Servers other than this Redis, where there are any: what is not there is said to be skipped.

use std::io::Write;
use std::time::Duration;

use crate::server::{Server, patient};
use plimsoll::{
    Bandwidths, Concurrency, FixedWindow, Quota, SlidingCounter, SlidingLog, SlidingWindow,
    TokenBucket,
};
use plimsoll_redis::{Decision, RedisRule, Store};

fn rules() -> Vec<RedisRule> {
    let quota = Quota::new(3, Duration::from_secs(60));
    let odd = Quota::new(3, Duration::from_nanos(61_000_000_007));
    let long = Quota::new(3, Duration::from_secs(1 << 30));
    vec![
        FixedWindow::new(quota).into(),
        SlidingWindow::new(odd, 7).into(),
        SlidingCounter::new(long).into(),
        SlidingLog::new(quota).counting_refusals().into(),
        TokenBucket::greedy(odd).into(),
        TokenBucket::interval(long).into(),
        Bandwidths::new([TokenBucket::greedy(quota), TokenBucket::greedy(long)]).into(),
        Concurrency::new(3).into(),
    ]
}

/// Each rule by itself, and all together, in numbers small and large.
async fn decides(store: &Store) {
    let mut limiters = Vec::new();
    for (number, rule) in rules().into_iter().enumerate() {
        let limiter = store.limiter(&format!("rule {number}"), rule);
        limiters.push(limiter.expect("a limit"));
    }
    for limiter in &limiters {
        let mut held = Vec::new();
        for turn in 0..5 {
            match limiter.decide("alone", 1).await.expect("a decision") {
                Decision::Granted(permit) => held.push(permit),
                Decision::Denied(_) => assert!(turn > 2, "{limiter:?}"),
            }
        }
        assert_eq!(held.len(), 3, "{limiter:?}");
    }
    let all = store.all(limiters).expect("all");
    let mut held = Vec::new();
    for turn in 0..5 {
        let decision = all.decide("together", 1).await.expect("a decision");
        assert_eq!(decision.is_granted(), turn < 3);
        held.push(decision);
    }
}

#[tokio::test]
async fn redis_in_the_protocol_before_the_newest() {
    let server = Server::start();
    let url = format!("{}/?protocol=resp2", server.url());
    decides(&patient(Store::builder(&url)).open().expect("a store")).await;
}

#[tokio::test]
async fn valkey() {
    let Some(server) = Server::of("valkey-server", &[]) else {
        // Past the harness, which would hide it.
        let line = "SKIPPED: there is no valkey-server here, so nothing is shown about Valkey";
        let _ = writeln!(std::io::stderr(), "{line}");
        return;
    };
    decides(&server.store().open().expect("a store")).await;
}
