//! Permits that come back: when they are dropped, and when their holder is gone.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{Concurrency, Limiter, ManualClock};
use plimsoll_redis::{RedisLimiter, RedisPermit, RedisRule};

const KEY: &str = "subject";

async fn take(limiter: &RedisLimiter, cost: u64) -> Option<RedisPermit> {
    let decision = limiter.decide(KEY, cost).await.expect("a decision");
    decision.into_result().ok()
}

async fn in_use(limiter: &RedisLimiter) -> u64 {
    limiter.look(KEY).await.expect("a look").in_use
}

/// Asks again until it is so.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(within.is_ok(), "never came: {what}");
}

/// A limit of 5 with leases of 30 seconds, on a clock moved by hand.
fn by_hand(server: &Server) -> (ManualClock, RedisLimiter) {
    let clock = ManualClock::new();
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let limiter = store.limiter("jobs", Concurrency::new(5)).expect("a limit");
    (clock, limiter)
}

#[tokio::test]
async fn a_crashed_holder_frees_its_permit_when_the_lease_runs_out() {
    let server = Server::start();
    let (clock, limiter) = by_hand(&server);
    // As if the process had ended: nobody gives it back.
    take(&limiter, 4).await.expect("room").forget();
    assert!(take(&limiter, 2).await.is_none());

    clock.advance(Duration::from_secs(30) - Duration::from_micros(1));
    assert!(take(&limiter, 2).await.is_none());
    clock.advance(Duration::from_micros(1));
    assert!(take(&limiter, 2).await.is_some());
}

/// A holder that was stopped for longer than its lease must know it when it goes on, before anything else has run.
#[tokio::test]
async fn a_lease_that_has_run_out_is_lost_at_once() {
    let server = Server::start();
    let (clock, limiter) = by_hand(&server);
    let fleet = limiter.fleet().build().expect("a fleet");
    let direct = take(&limiter, 1).await.expect("room");
    let layered = fleet.key(KEY).acquire_owned(1.into()).await;
    let layered = layered.expect("room");
    clock.advance(Duration::from_secs(30) - Duration::from_nanos(1));
    assert!(!direct.is_lost() && !layered.is_lost());
    clock.advance(Duration::from_nanos(1));
    assert!(direct.is_lost() && layered.is_lost());
    direct.lost().await;
    layered.lost().await;
}

#[tokio::test]
async fn an_expired_lease_cannot_give_back_what_is_anothers() {
    let server = Server::start();
    let (clock, limiter) = by_hand(&server);
    let late = take(&limiter, 5).await.expect("room");
    clock.advance(Duration::from_secs(31));
    let other = take(&limiter, 5).await.expect("the lease has run out");

    assert!(!late.release().await.expect("an answer"));
    assert_eq!(in_use(&limiter).await, 5);
    assert!(other.release().await.expect("an answer"));
    assert_eq!(in_use(&limiter).await, 0);
    assert_eq!(server.cli(&["dbsize"]), "0");
}

#[tokio::test]
async fn a_dropped_permit_comes_back_in_the_background() {
    let server = Server::start();
    let (_, limiter) = by_hand(&server);
    let permits = [take(&limiter, 2).await, take(&limiter, 3).await];
    assert_eq!(in_use(&limiter).await, 5);
    drop(permits);
    eventually("both back", async || in_use(&limiter).await == 0).await;
    assert_eq!(limiter.lease_failures(), 0);
}

#[tokio::test]
async fn a_decision_that_nobody_waits_for_holds_nothing() {
    let server = Server::start();
    let (_, limiter) = by_hand(&server);
    // The script is known, and the connection made.
    drop(take(&limiter, 1).await);
    eventually("back", async || in_use(&limiter).await == 0).await;
    for _ in 0..20 {
        let decision = limiter.decide(KEY, 5);
        // Given up after it was sent, and before its answer was read.
        let _ = tokio::time::timeout(Duration::ZERO, decision).await;
    }
    eventually("sent", async || {
        let stats = server.cli(&["info", "commandstats"]);
        let sent = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_zadd:calls="));
        let sent = sent.and_then(|line| line.split(',').next()?.parse::<u64>().ok());
        sent.is_some_and(|sent| sent > 1)
    })
    .await;
    eventually("free", async || in_use(&limiter).await == 0).await;
}

#[tokio::test]
async fn part_of_what_is_asked_for_is_held_by_a_lease_too() {
    let server = Server::start();
    let (_, limiter) = by_hand(&server);
    let held = take(&limiter, 2).await;
    let rest = limiter.take_up_to(KEY, 10).await.expect("an answer");
    assert_eq!(rest.cost(), 3);
    let none = limiter.take_up_to(KEY, 10).await.expect("an answer");
    assert_eq!(none.cost(), 0);
    assert!(rest.release().await.expect("an answer"));
    assert_eq!(in_use(&limiter).await, 2);
    drop(held);
}

/// A limit whose leases last for 3 seconds of real time, so they are renewed every second.
fn live(server: &Server) -> RedisLimiter {
    let store = server.store().raw_keys().open().expect("a store");
    let rule = RedisRule::from(Concurrency::new(5)).lease(Duration::from_secs(3));
    store.limiter("jobs", rule).expect("a limit")
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_renewed_while_they_are_held_and_no_longer() {
    let server = Server::start();
    let limiter = live(&server);
    let ends = || {
        let key = "plimsoll:{subject}:jobs:k";
        let scores = server.cli(&["zrange", key, "2", "-1", "withscores"]);
        let score = scores.lines().nth(1).map(str::to_owned);
        score.and_then(|score| score.parse::<f64>().ok())
    };
    let permit = take(&limiter, 1).await.expect("room");
    let first = ends().expect("a lease");
    eventually("renewed twice", async || {
        let renewed = ends().expect("a lease that is held is there");
        renewed > first + 1_500_000.0
    })
    .await;
    assert!(!permit.is_lost());
    assert!(permit.release().await.expect("an answer"));
    assert_eq!(server.cli(&["dbsize"]), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_learns_that_its_lease_is_gone() {
    let server = Server::start();
    let limiter = live(&server);
    let permit = take(&limiter, 1).await.expect("room");
    limiter.forget(KEY).await.expect("forgetting");
    eventually("lost", async || permit.is_lost()).await;
    assert!(!permit.release().await.expect("an answer"));
}

#[test]
fn leases_are_renewed_after_the_runtime_that_did_it_is_gone() {
    let server = Server::start();
    let limiter = live(&server);
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let first = runtime();
    first.block_on(take(&limiter, 1)).expect("room").forget();
    let held = first.block_on(take(&limiter, 1)).expect("room");
    drop(first);
    runtime().block_on(async {
        let _held = held;
        // The connection is gone as well, and whoever comes first finds out.
        assert!(limiter.look(KEY).await.is_err());
        let permit = take(&limiter, 1).await.expect("room");
        limiter.forget(KEY).await.expect("forgetting");
        // Only who renews finds out.
        eventually("lost", async || permit.is_lost()).await;
    });
}

#[tokio::test]
async fn a_lease_too_short_to_be_renewed_is_refused() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let rule = RedisRule::from(Concurrency::new(5)).lease(Duration::from_micros(999));
    let error = store.limiter("jobs", rule).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`lease` is 999µs: expected 1ms to 146 years"
    );
}

/// Seen to fail: 128 scripts, two for each lease, because the server did not know the script when they were sent.
#[tokio::test]
async fn leases_that_are_returned_at_once_share_scripts_and_each_is_told_of_its_own() {
    const COUNT: u64 = 64;
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let jobs = store.limiter("jobs", Concurrency::new(COUNT));
    let jobs = jobs.expect("a limiter");
    let mut permits = Vec::new();
    for _ in 0..COUNT {
        let decision = jobs.decide("k", 1).await.expect("a decision");
        permits.push(decision.into_result().expect("a slot"));
    }
    assert_eq!(jobs.look("k").await.expect("a look").in_use, COUNT);
    let before = server.scripts_run();
    let releases: Vec<_> = permits
        .into_iter()
        .map(|permit| tokio::spawn(permit.release()))
        .collect();
    for release in releases {
        assert!(release.await.expect("joined").expect("a release"));
    }
    let scripts = server.scripts_run() - before;
    assert!(scripts <= 4, "{scripts} scripts");
    assert_eq!(jobs.look("k").await.expect("a look").in_use, 0);
    // One that is gone is told so, beside one that is not.
    let [lost, kept] = [jobs.decide("k", 1).await, jobs.decide("j", 1).await];
    server.cli(&["flushall"]);
    let again = jobs.decide("k", 1).await;
    let [lost, kept, again] = [lost, kept, again].map(|decision| {
        let decision = decision.expect("a decision");
        tokio::spawn(decision.into_result().expect("a slot").release())
    });
    assert!(!lost.await.expect("joined").expect("a release"));
    assert!(!kept.await.expect("joined").expect("a release"));
    assert!(again.await.expect("joined").expect("a release"));
}
