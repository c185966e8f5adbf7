//! Taking in batches and deciding here.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{
    Concurrency, Demand, FixedWindow, Limiter, ManualClock, PerKey, Quota, Reason, SlidingLog,
    TokenBucket,
};
use plimsoll_redis::{Borrow, Fleet, Outage, RedisRule, Store};

const KEY: &str = "subject";
const DAILY: FixedWindow = FixedWindow::new(Quota::per_day(10_000)).aligned_to_epoch();

fn store(server: &Server, clock: &ManualClock) -> Store {
    let store = server.store().clock(clock.clock()).open();
    store.expect("a store")
}

fn fleet(store: &Store, rule: impl Into<RedisRule>, borrow: Borrow) -> Fleet {
    let limiter = store.limiter("api", rule).expect("a limiter");
    let fleet = limiter.fleet().borrowing(borrow);
    fleet.build().expect("a fleet")
}

/// Asks until it is so: for what happens in the background. Every look is a round trip.
async fn until_in_use(fleet: &Fleet, in_use: u64) {
    let mut seen = u64::MAX;
    for _ in 0..10_000 {
        seen = fleet.limiter().look(KEY).await.expect("a look").in_use;
        if seen == in_use {
            return;
        }
    }
    panic!("{seen} in use, not {in_use}");
}

async fn in_use(fleet: &Fleet) -> u64 {
    fleet.limiter().look(KEY).await.expect("a look").in_use
}

#[tokio::test]
async fn a_thousand_demands_need_a_few_round_trips() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let api = fleet(&store(&server, &clock), DAILY, Borrow::new());
    let before = server.scripts_run();
    for _ in 0..1000 {
        let permit = api.acquire_owned(KEY, 1.into()).await.expect("room");
        assert_eq!(permit.standing().expect("a standing").limit, 10_000);
        clock.advance(Duration::from_micros(100));
    }
    let trips = server.scripts_run() - before;
    println!("{trips} round trips for 1000 demands");
    assert!(trips < 30, "{trips}");
    // What is here is granted at once, and all of it was taken there.
    let mut at_once = 0;
    while api.attempt(KEY, Demand::ONE).is_ok() {
        at_once += 1;
        assert!(at_once <= 500);
    }
    assert!(at_once > 10, "{at_once}");
    assert!(in_use(&api).await >= 1000 + at_once);
    assert_eq!(api.totals().granted, 1000 + at_once);
}

#[tokio::test]
async fn those_who_come_together_wait_for_one_batch() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let api = fleet(&store(&server, &clock), DAILY, Borrow::new());
    let before = server.scripts_run();
    let asked: Vec<_> = (0..200)
        .map(|_| tokio::spawn(api.acquire_owned(KEY, 1.into())))
        .collect();
    for each in asked {
        assert!(each.await.expect("no panic").is_ok());
    }
    let trips = server.scripts_run() - before;
    println!("{trips} round trips for 200 at once");
    assert!(trips <= 5, "{trips}");
    assert!(in_use(&api).await <= 200 + 500);
}

#[tokio::test]
async fn what_is_not_used_goes_back() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = store(&server, &clock);
    let api = fleet(&store, DAILY, Borrow::new());
    for _ in 0..20 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    assert!(in_use(&api).await > 20);
    assert_eq!(api.totals().keys, 1);
    // After it was kept for its time.
    for _ in 0..3 {
        clock.advance(Duration::from_millis(500));
        tokio::task::yield_now().await;
    }
    until_in_use(&api, 20).await;
    while api.totals().keys > 0 {
        clock.advance(Duration::from_millis(500));
        tokio::task::yield_now().await;
    }

    // At once, if somebody says so.
    for _ in 0..20 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    assert!(in_use(&api).await > 40);
    api.give_back().await.expect("a return");
    assert_eq!(in_use(&api).await, 40);

    // When the last handle is dropped.
    for _ in 0..20 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    let other = fleet(&store, DAILY, Borrow::new());
    assert!(in_use(&other).await > 60);
    assert_eq!(api.totals().lost, 0);
    drop(api);
    until_in_use(&other, 60).await;
}

#[tokio::test]
async fn by_the_clock_of_the_server_it_is_the_same() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    // So long that nothing goes back before it is told to.
    let borrow = Borrow::new().keep(Duration::from_secs(600));
    let api = fleet(&store, DAILY, borrow);
    let before = server.scripts_run();
    for _ in 0..500 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    let trips = server.scripts_run() - before;
    println!("{trips} round trips for 500 demands, one after the other");
    assert!(trips < 100, "{trips}");
    // One may be on its way.
    for _ in 0..1000 {
        api.give_back().await.expect("a return");
        if in_use(&api).await == 500 {
            return;
        }
    }
    assert_eq!(in_use(&api).await, 500);
}

#[tokio::test]
async fn who_was_refused_is_refused_here_until_the_time_that_was_said() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let rule = FixedWindow::new(Quota::per_minute(5));
    let api = fleet(&store(&server, &clock), rule, Borrow::new());
    for _ in 0..5 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    clock.advance(Duration::from_secs(10));
    let denied = api.acquire_owned(KEY, 2.into()).await.expect_err("full");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(50)));
    let before = server.scripts_run();
    clock.advance(Duration::from_secs(20));
    let later = api.acquire_owned(KEY, 2.into()).await.expect_err("full");
    assert_eq!(later.retry_after(), Some(Duration::from_secs(30)));
    assert_eq!(later.reset(), Some(Duration::from_secs(30)));
    assert_eq!((later.limit(), later.remaining()), (5, 0));
    assert_eq!(
        (later.reason(), later.limiter()),
        (Reason::Exhausted, Some("api"))
    );
    assert_eq!(api.attempt(KEY, Demand::of(3)).expect_err("full"), later);
    assert_eq!(
        api.key(KEY).estimate(Demand::of(2)).expect_err("full"),
        later
    );
    assert_eq!(server.scripts_run(), before);
    // Of less nothing is known.
    assert!(api.acquire_owned(KEY, 1.into()).await.is_err());
    assert_eq!(server.scripts_run(), before + 1);
    clock.advance(Duration::from_secs(30));
    let permit = api
        .acquire_owned(KEY, 5.into())
        .await
        .expect("a new window");
    assert!(api.acquire_owned(KEY, 1.into()).await.is_err());
    // Giving back makes it forget.
    permit.undo();
    until_in_use(&api, 0).await;
    while api.acquire_owned(KEY, 1.into()).await.is_err() {}
}

#[tokio::test]
async fn what_was_borrowed_in_one_window_is_not_used_in_the_next() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let rule = FixedWindow::new(Quota::new(1000, Duration::from_millis(100)));
    let api = fleet(&store(&server, &clock), rule, Borrow::new());
    for _ in 0..60 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    assert!(api.attempt(KEY, Demand::ONE).is_ok());
    clock.advance(Duration::from_millis(100));
    assert!(api.attempt(KEY, Demand::ONE).is_err());
    drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    assert!(in_use(&api).await >= 1);
}

#[tokio::test]
async fn one_who_gives_up_leaves_the_batch_to_others() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let api = fleet(&store(&server, &clock), DAILY, Borrow::new());
    let mut asked = Box::pin(api.acquire_owned(KEY, 3.into()));
    let begun = std::future::poll_fn(|cx| std::task::Poll::Ready(asked.as_mut().poll(cx)));
    assert!(begun.await.is_pending());
    drop(asked);
    while api.totals().keys == 0 || api.attempt(KEY, Demand::of(3)).is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(in_use(&api).await, 3);
    // One by its hash, which the server did not know, one whole, and the look.
    assert_eq!(server.scripts_run(), 3);
}

#[tokio::test]
async fn undone_and_charged_it_stays_here() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let api = fleet(&store(&server, &clock), DAILY, Borrow::new());
    for _ in 0..20 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    let before = (server.scripts_run(), in_use(&api).await);
    let left = PerKey::standing(&api, KEY).remaining.unwrap();
    let permit = api.attempt(KEY, Demand::of(2)).expect("something borrowed");
    assert_eq!(PerKey::standing(&api, KEY).remaining.unwrap(), left - 2);
    permit.undo();
    assert_eq!(PerKey::standing(&api, KEY).remaining.unwrap(), left);
    api.charge(KEY, 1);
    assert_eq!(api.key(KEY).standing().remaining.unwrap(), left - 1);
    assert_eq!((server.scripts_run() - 1, in_use(&api).await), before);
    // What is not here is charged there.
    api.charge(KEY, 1000);
    let all = before.1 + 1000;
    loop {
        let seen = in_use(&api).await;
        assert!(seen <= all);
        if seen >= 1000 {
            break;
        }
    }
}

#[tokio::test]
async fn keys_beyond_the_bound_are_decided_by_the_store() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let borrow = Borrow::new().max_keys(3);
    let api = fleet(&store(&server, &clock), DAILY, borrow);
    for round in 0..4 {
        for key in 0..10 {
            assert!(api.acquire_owned(&key, 1.into()).await.is_ok(), "{round}");
        }
    }
    assert_eq!(api.totals().keys, 3);
    assert_eq!(api.limiter().look("9").await.expect("a look").in_use, 4);
}

#[tokio::test]
async fn large_costs_and_small_limits_are_decided_by_the_store() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = store(&server, &clock);
    let api = fleet(&store, DAILY, Borrow::new().max(10));
    drop(api.acquire_owned(KEY, 11.into()).await.expect("room"));
    assert_eq!(in_use(&api).await, 11);
    let denied = api
        .acquire_owned(KEY, 10_001.into())
        .await
        .expect_err("too large");
    assert_eq!(denied.reason(), Reason::TooLarge);
    assert!(api.acquire_owned(KEY, 9_989.into()).await.is_ok());
    assert!(api.acquire_owned(KEY, 0.into()).await.is_err());

    let small = store
        .limiter("small", TokenBucket::per_second(3))
        .expect("a limiter");
    let small = small
        .fleet()
        .borrowing(Borrow::new())
        .build()
        .expect("a fleet");
    for granted in [true, true, true, false] {
        let answer = small.acquire_owned(KEY, 1.into()).await;
        assert_eq!(answer.is_ok(), granted);
    }
}

#[tokio::test]
async fn what_is_borrowed_lasts_when_the_store_is_gone() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let limiter = store(&server, &clock)
        .limiter("api", DAILY)
        .expect("a limiter");
    let api = limiter
        .fleet()
        .borrowing(Borrow::new())
        .outage(Outage::Deny);
    let api = api.build().expect("a fleet");
    for _ in 0..40 {
        drop(api.acquire_owned(KEY, 1.into()).await.expect("room"));
    }
    drop(server);
    let mut left = 0;
    let denied = loop {
        match api.acquire_owned(KEY, 1.into()).await {
            Ok(_) => left += 1,
            Err(denied) => break denied,
        }
    };
    assert!(left > 0);
    assert_eq!(denied.reason(), Reason::Unavailable);
    assert_eq!(api.totals().undecided, 1);
}

#[tokio::test]
async fn another_process_can_have_all_but_what_is_held() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let rule = FixedWindow::new(Quota::per_day(1000));
    let (one, other) = (store(&server, &clock), store(&server, &clock));
    let one = fleet(&one, rule.clone(), Borrow::new().max(50));
    let other = fleet(&other, rule, Borrow::new().max(50));
    let mut granted = 0;
    for _ in 0..100 {
        granted += u64::from(one.acquire_owned(KEY, 1.into()).await.is_ok());
    }
    while other.acquire_owned(KEY, 1.into()).await.is_ok() {
        granted += 1;
    }
    assert!((950..=1000).contains(&granted), "{granted}");
    while one.acquire_owned(KEY, 1.into()).await.is_ok() {
        granted += 1;
    }
    assert_eq!(granted, 1000);
}

#[test]
fn only_rates_without_gaps_can_be_borrowed() {
    let store = Store::open("redis://127.0.0.1:1").expect("a store");
    let refused = |rule: RedisRule, borrow: Borrow| {
        let limiter = store.limiter("x", rule).expect("a limiter");
        let built = limiter.fleet().borrowing(borrow).build();
        built.err().map(|invalid| invalid.to_string())
    };
    let quota = Quota::per_minute(10);
    let gaps = SlidingLog::new(quota).min_gap(Duration::from_secs(1));
    let text = refused(Concurrency::new(1).into(), Borrow::new());
    assert_eq!(text.as_deref(), Some("`borrow` is leases: expected a rate"));
    assert!(refused(gaps.into(), Borrow::new()).is_some());
    let never = Borrow::new().keep(Duration::ZERO);
    assert!(refused(FixedWindow::new(quota).into(), never).is_some());
    assert_eq!(
        refused(SlidingLog::new(quota).into(), Borrow::new().max(0)),
        None
    );
}
