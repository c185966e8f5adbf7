//! The clock of the server steps back by more than a limit remembers, or another server with another clock takes over.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{
    Concurrency, FixedWindow, ManualClock, Moment, Quota, SlidingCounter, SlidingLog,
    SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule, Store};

const KEY: &str = "subject";
const START: u64 = 1_789_000_000_123_456_789;
const HOUR: u64 = 3_600_000_000_000;

fn store(server: &Server, clock: &ManualClock) -> Store {
    server.store().clock(clock.clock()).open().expect("a store")
}

async fn decide(limiter: &RedisLimiter, cost: u32) -> Decision {
    limiter.decide(KEY, cost).await.expect("a decision")
}

/// What was written an hour ahead counted as used just now with every call, so nothing came back for an hour, and who
/// asked was told 100 ms each time.
#[tokio::test]
async fn a_clock_an_hour_back_delays_nobody_longer_than_the_limit_remembers() {
    let server = Server::start();
    let quota = Quota::per_second(10);
    let rules: [(&str, RedisRule); 6] = [
        ("window", FixedWindow::new(quota).into()),
        ("segments", SlidingWindow::new(quota, 5).into()),
        ("counter", SlidingCounter::new(quota).into()),
        ("log", SlidingLog::new(quota).into()),
        ("greedy", TokenBucket::greedy(quota).into()),
        ("interval", TokenBucket::interval(quota).into()),
    ];
    for (name, rule) in rules {
        let ahead = ManualClock::starting_at(Moment::from_nanos(START));
        let right = ManualClock::starting_at(Moment::from_nanos(START - HOUR));
        let before = store(&server, &ahead).limiter(name, rule.clone());
        assert!(decide(&before.expect("a limit"), 10).await.is_granted());
        let now = store(&server, &right);
        let limiter = now.limiter(name, rule).expect("a limit");
        let Decision::Denied(denied) = decide(&limiter, 10).await else {
            panic!("{name}: what was used stays used");
        };
        let told = denied.retry_after().expect("a time");
        assert!(told <= Duration::from_secs(2), "{name}: {told:?}");
        // Asking meanwhile delays nothing.
        right.advance(told / 2);
        assert!(!decide(&limiter, 10).await.is_granted(), "{name}");
        right.advance(told - told / 2);
        assert!(decide(&limiter, 10).await.is_granted(), "{name}");
        assert_eq!(now.clock_steps(), 1, "{name}");
    }
}

/// Leases of holders that crashed were kept until the clock had caught up.
#[tokio::test]
async fn a_clock_an_hour_back_frees_crashed_holders_after_the_length_of_a_lease() {
    let server = Server::start();
    let ahead = ManualClock::starting_at(Moment::from_nanos(START));
    let right = ManualClock::starting_at(Moment::from_nanos(START - HOUR));
    let rule = RedisRule::from(Concurrency::new(3)).with_lease(Duration::from_secs(30));
    let crashed = store(&server, &ahead).limiter("jobs", rule.clone());
    let crashed = decide(&crashed.expect("a limit"), 3).await;
    crashed.into_result().expect("room").forget();
    let now = store(&server, &right);
    let limiter = now.limiter("jobs", rule).expect("a limit");
    assert!(!decide(&limiter, 1).await.is_granted());
    right.advance(Duration::from_secs(29));
    assert!(!decide(&limiter, 1).await.is_granted());
    right.advance(Duration::from_secs(1));
    assert!(decide(&limiter, 1).await.is_granted());
    assert_eq!(now.clock_steps(), 1);
}
