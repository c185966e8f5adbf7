//! Waiting for the time one was told.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{Concurrency, Demand, Limiter, ManualClock, Permit, Quota, Reason, TokenBucket};
use plimsoll_redis::{Borrow, FleetBuilder, FleetKey, RedisRule};
use tokio::task::JoinHandle;

const RULE: TokenBucket = TokenBucket::greedy(Quota::per_second(2));

fn build(server: &Server, clock: &ManualClock, rule: impl Into<RedisRule>) -> FleetBuilder {
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let limiter = store.limiter("api", rule).expect("a limiter");
    limiter.fleet().waiting(2)
}

fn one(builder: FleetBuilder) -> FleetKey {
    builder.build().expect("a fleet").key("subject")
}

type Answer = Result<Permit<'static>, plimsoll::Denied>;

/// Asks, and goes on when it waits.
async fn wait(limiter: &FleetKey, demand: Demand) -> JoinHandle<Answer> {
    let before = limiter.snapshot().waiters();
    let asked = tokio::spawn(limiter.acquire_owned(demand));
    while limiter.snapshot().waiters() == before {
        assert!(!asked.is_finished());
        tokio::task::yield_now().await;
    }
    asked
}

#[tokio::test]
async fn a_demand_waits_as_long_as_it_was_told_and_no_longer_than_it_likes() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let api = one(build(&server, &clock, RULE));
    drop(api.acquire(2.into()).await.expect("room"));
    let within = |millis| Demand::ONE.within(Duration::from_millis(millis));

    let asked = wait(&api, within(500)).await;
    clock.advance(Duration::from_millis(499));
    tokio::task::yield_now().await;
    assert!(!asked.is_finished());
    clock.advance(Duration::from_millis(1));
    let permit = asked.await.expect("no panic").expect("a token");
    assert_eq!(permit.granted_at(), clock.now());

    // A wait that is known to take too long is refused at once, with all that is known.
    let denied = api.acquire(within(499)).await.expect_err("too long");
    assert_eq!(denied.reason(), Reason::TimedOut);
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    assert_eq!((denied.limit(), denied.remaining()), (2, 0));
    assert_eq!(denied.limiter(), Some("api"));
    let denied = api.acquire(Demand::ONE.at_once()).await.expect_err("empty");
    assert_eq!(denied.reason(), Reason::Exhausted);

    // Who was overtaken waits again.
    let asked = wait(&api, Demand::ONE).await;
    let thief = build(&server, &clock, RULE).build().expect("a fleet");
    clock.advance(Duration::from_millis(500));
    // Which of the two comes first is open; both are served in the end.
    let _ = thief.limiter().take_up_to("subject", 1).await;
    while !asked.is_finished() {
        clock.advance(Duration::from_millis(100));
        // A round trip, so that time does not run away.
        thief.limiter().look("subject").await.expect("a look");
    }
    assert!(asked.await.expect("no panic").is_ok());
    assert_eq!(api.snapshot().waiters(), 0);
}

#[tokio::test]
async fn only_so_many_wait_and_who_gives_up_makes_room() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let api = one(build(&server, &clock, RULE));
    drop(api.acquire(2.into()).await.expect("room"));
    let first = wait(&api, Demand::ONE).await;
    let second = wait(&api, Demand::ONE).await;
    assert_eq!(
        (api.snapshot().waiters(), api.snapshot().queue_bound()),
        (2, 2)
    );
    let denied = api.acquire(Demand::ONE).await.expect_err("no place");
    assert_eq!(denied.reason(), Reason::QueueFull);
    assert!(denied.retry_after().is_some());
    first.abort();
    while api.snapshot().waiters() == 2 {
        tokio::task::yield_now().await;
    }
    let third = wait(&api, Demand::ONE).await;

    // Closed, it sends them away.
    api.close();
    for waiter in [second, third] {
        let denied = waiter.await.expect("no panic").expect_err("closed");
        assert_eq!(denied.reason(), Reason::Closed);
    }
    assert_eq!(api.snapshot().waiters(), 0);
}

#[tokio::test]
async fn nobody_waits_where_nobody_may_or_nobody_knows() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let patient = Demand::ONE.within(Duration::from_secs(3600));
    let api = one(build(&server, &clock, RULE).waiting(0));
    drop(api.acquire(2.into()).await.expect("room"));
    let denied = api.acquire(patient).await.expect_err("empty");
    assert_eq!(denied.reason(), Reason::Exhausted);

    let jobs = one(build(&server, &clock, Concurrency::new(1)));
    let held = jobs.acquire(patient).await.expect("room");
    let denied = jobs.acquire(patient).await.expect_err("held");
    assert_eq!(
        (denied.reason(), denied.retry_after()),
        (Reason::Exhausted, None)
    );
    drop(held);
    let denied = jobs.acquire(2.into()).await.expect_err("too large");
    assert_eq!(denied.reason(), Reason::TooLarge);
}

#[tokio::test]
async fn those_who_borrow_wait_too() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let rule = TokenBucket::per_second(100);
    let borrow = Borrow::new().max(10);
    let api = one(build(&server, &clock, rule).borrowing(borrow));
    let mut granted = 0;
    while api.acquire(Demand::ONE.at_once()).await.is_ok() {
        granted += 1;
    }
    assert_eq!(granted, 100);
    let asked = wait(&api, Demand::ONE.within(Duration::from_millis(10))).await;
    clock.advance(Duration::from_millis(10));
    assert!(asked.await.expect("no panic").is_ok());
}
