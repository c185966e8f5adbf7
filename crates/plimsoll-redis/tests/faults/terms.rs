//! A fleet is replaced by one with other terms, and for a while there are both.

use std::time::Duration;

use plimsoll::{FixedWindow, Quota, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::server::Server;

const SPAN: Duration = Duration::from_secs(3);

/// Asks all the time, and says how much was granted.
async fn asks_on(limiter: RedisLimiter, begin: Instant) -> u64 {
    let mut granted = 0;
    while begin.elapsed() < SPAN {
        match limiter.decide("subject", 1).await.expect("a decision") {
            Decision::Granted(_) => granted += 1,
            Decision::Denied(_) => sleep(Duration::from_millis(2)).await,
        }
    }
    granted
}

/// 10 a second beside 20 a second granted nothing after the first moment: each refusal wrote down its own terms and dropped
/// the time that had passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_fleets_on_different_terms_grant_between_the_smaller_and_the_larger() {
    let server = Server::start();
    let quotas = [
        Quota::new(10, Duration::from_secs(1)),
        Quota::new(20, Duration::from_secs(1)),
    ];
    // Windows of one length do not differ in their terms, so theirs differ in length too.
    let windows = [
        Quota::new(10, Duration::from_secs(1)),
        Quota::new(10, Duration::from_millis(500)),
    ];
    let kinds: [(&str, [RedisRule; 2]); 6] = [
        (
            "greedy",
            quotas.map(|quota| TokenBucket::greedy(quota).into()),
        ),
        (
            "interval",
            quotas.map(|quota| TokenBucket::interval(quota).into()),
        ),
        (
            "window",
            windows.map(|quota| FixedWindow::new(quota).into()),
        ),
        (
            "segments",
            windows.map(|quota| SlidingWindow::new(quota, 5).into()),
        ),
        (
            "counter",
            windows.map(|quota| SlidingCounter::new(quota).into()),
        ),
        ("log", windows.map(|quota| SlidingLog::new(quota).into())),
    ];
    for (name, rules) in kinds {
        let begin = Instant::now();
        let mut asking = JoinSet::new();
        for rule in rules {
            // A process of each fleet, with a connection of its own.
            let store = server.store().open().expect("a store");
            let limiter = store.limiter(name, rule).expect("a limiter");
            for _ in 0..4 {
                asking.spawn(asks_on(limiter.clone(), begin));
            }
        }
        let granted: u64 = asking.join_all().await.into_iter().sum();
        // The smaller grants 10 a second. The larger grants 20 a second and 20 at once, or one window more than fit,
        // and the last call may have been on its way a little longer.
        assert!((28..=84).contains(&granted), "{name}: {granted}");
    }
}
