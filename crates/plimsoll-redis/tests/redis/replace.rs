//! A rule that is changed while the limiter is used: what was used stays used.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{
    Concurrency, Demand, FixedWindow, Limiter, ManualClock, PerKey, Quota, SlidingLog, TokenBucket,
};
use plimsoll_redis::{Borrow, Outage, RedisLimiter, RedisRule};

const KEY: &str = "subject";

/// How often one more is granted.
async fn granted(limiter: &RedisLimiter) -> u64 {
    let mut granted = 0;
    while let Ok(permit) = limiter
        .decide(KEY, 1)
        .await
        .expect("a decision")
        .into_result()
    {
        permit.forget();
        granted += 1;
    }
    granted
}

/// Two processes, on old and new terms, and then both on the new ones.
async fn replaced(rule: impl Fn(u64) -> RedisRule) {
    let server = Server::start();
    let time = ManualClock::new();
    let limiter = || {
        let store = server.store().clock(time.clock()).open().expect("a store");
        store.limiter("x", rule(10)).expect("a limit")
    };
    let (one, other) = (limiter(), limiter());
    let same = one.clone();
    for _ in 0..6 {
        let permit = one.decide(KEY, 1).await.expect("a decision");
        permit.into_result().expect("granted").forget();
    }
    one.replace(rule(20)).expect("a limit");
    assert_eq!((same.limit(), other.limit()), (20, 10));
    assert_eq!(granted(&other).await, 4, "by the old terms 10 in all");
    assert_eq!(granted(&same).await, 10, "by the new terms 20 in all");
    assert_eq!(granted(&other).await, 0);
    other.replace(rule(23)).expect("a limit");
    assert_eq!(granted(&other).await, 3);
    one.replace(rule(5)).expect("a limit");
    assert_eq!(
        granted(&one).await,
        0,
        "no less is used because less may be"
    );
}

#[tokio::test]
async fn of_windows_buckets_logs_and_leases() {
    let day = |units| Quota::new(units, Duration::from_secs(86_400));
    replaced(|limit| FixedWindow::new(day(limit)).into()).await;
    replaced(|limit| TokenBucket::greedy(day(limit)).into()).await;
    replaced(|limit| SlidingLog::new(day(limit)).into()).await;
    replaced(|limit| Concurrency::new(limit).into()).await;
}

#[tokio::test]
async fn another_kind_is_refused_and_changes_nothing() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let limiter = store.limiter("x", FixedWindow::new(Quota::per_day(10)));
    let limiter = limiter.expect("a limit");
    let refused = limiter.replace(TokenBucket::per_second(1));
    assert_eq!(
        refused.expect_err("another kind").to_string(),
        "`rule` is TokenBucket: expected one of the same kind"
    );
    assert_eq!(limiter.limit(), 10);
}

#[tokio::test]
async fn leases_that_are_held_keep_their_length_and_go_back() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let jobs = |seconds| RedisRule::from(Concurrency::new(2)).lease(Duration::from_secs(seconds));
    let limiter = store.limiter("x", jobs(10)).expect("a limit");
    let take = async || {
        limiter
            .decide(KEY, 1)
            .await
            .expect("a decision")
            .into_result()
    };
    let first = take().await.expect("granted");
    limiter.replace(jobs(600)).expect("a limit");
    let second = take().await.expect("granted");
    assert!(take().await.is_err());
    assert!(first.release().await.expect("an answer"));
    assert!(second.release().await.expect("an answer"));
    assert_eq!(limiter.look(KEY).await.expect("a look").in_use, 0);
}

#[tokio::test]
async fn everybody_who_holds_a_fleet_goes_by_the_new_rule() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let limiter = |units| {
        let rule = FixedWindow::new(Quota::per_day(units));
        store.limiter("x", rule).expect("a limit")
    };
    let fleet = limiter(5).fleet().build().expect("a fleet");
    let (same, one) = (fleet.clone(), fleet.key(KEY));
    let demand = Demand::of(5);
    assert!(fleet.acquire_owned(KEY, demand).await.is_ok());
    assert!(one.acquire(1.into()).await.is_err());

    let borrowing = limiter(100).fleet().borrowing(Borrow::new().max(10));
    fleet.replace(borrowing).expect("a fleet");
    assert!(one.acquire(1.into()).await.is_ok());
    let denied = one.acquire(101.into()).await.expect_err("too large");
    assert_eq!((denied.limit(), same.limiter().limit()), (100, 100));
    assert_eq!(same.totals().granted, 2);
    assert_eq!(same.totals().denied, 2);

    let share = limiter(200).fleet().outage(Outage::Local { share: 2.0 });
    assert!(fleet.replace(share).is_err());
    assert_eq!(fleet.limiter().limit(), 100);

    // What was borrowed goes back.
    fleet.replace(limiter(6).fleet()).expect("a fleet");
    let back = async || {
        while limiter(6).look(KEY).await.expect("a look").in_use > 6 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), back())
        .await
        .expect("given back");
}
