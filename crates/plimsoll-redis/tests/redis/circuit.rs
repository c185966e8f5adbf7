//! A store that does not answer is left alone, and found again.

use std::time::Duration;

use crate::server::{Server, patient};
use plimsoll::{Demand, FixedWindow, ManualClock, PerKey, Quota, Reason};
use plimsoll_redis::{Outage, RedisLimiter, Store, StoreErrorKind};

const KEY: &str = "subject";

const ALL: FixedWindow = FixedWindow::new(Quota::per_day(1000)).aligned_to_epoch();

/// Circuits go by a clock moved by hand; answers take the time they take.
fn store_on(port: u16, clock: &ManualClock) -> Store {
    let store = Store::builder(&format!("redis://127.0.0.1:{port}"));
    store.clock(clock.clock()).open().expect("a store")
}

async fn kind(limiter: &RedisLimiter) -> Result<bool, StoreErrorKind> {
    let decision = limiter.decide(KEY, 1).await;
    match decision {
        Ok(decision) => Ok(decision.is_granted()),
        Err(error) => Err(error.kind()),
    }
}

#[tokio::test]
async fn a_killed_store_is_left_alone_and_found_again_without_a_restart() {
    let clock = ManualClock::new();
    let server = Server::start();
    let port = server.port();
    // Patient: only the refused connections are to count.
    let store = patient(Store::builder(&server.url())).clock(clock.clock());
    let store = store.open().expect("a store");
    let api = store.limiter("api", ALL).expect("a limiter");
    assert_eq!(kind(&api).await, Ok(true));
    drop(server); // with SIGKILL
    for _ in 0..5 {
        assert_eq!(kind(&api).await, Err(StoreErrorKind::Unreachable));
    }
    assert!(!store.is_asked());
    assert_eq!(kind(&api).await, Err(StoreErrorKind::CircuitOpen));
    clock.advance(Duration::from_millis(100));
    assert!(store.is_asked());
    assert_eq!(kind(&api).await, Err(StoreErrorKind::Unreachable));
    // The pause has doubled.
    clock.advance(Duration::from_millis(99));
    let server = Server::on(port, &[]);
    assert_eq!(kind(&api).await, Err(StoreErrorKind::CircuitOpen));
    clock.advance(Duration::from_millis(101));
    assert_eq!(kind(&api).await, Ok(true));
    assert_eq!((store.is_asked(), store.outages()), (true, 2));
    assert_eq!(api.look(KEY).await.expect("a look").in_use, 1);
    drop(server);
}

#[tokio::test]
async fn a_stopped_store_costs_the_deadline_then_nothing_and_is_charged_once() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = store_on(server.port(), &clock);
    let api = store.limiter("api", ALL).expect("a limiter");
    // Connecting may take longer than the deadline on a busy machine.
    while kind(&api).await.is_err() {
        clock.advance(Duration::from_secs(5));
    }
    // One who has all the time looks on.
    let watcher = server.store().clock(clock.clock()).open().expect("a store");
    let watcher = watcher.limiter("api", ALL).expect("a limiter");
    let before = watcher.look(KEY).await.expect("a look").in_use;
    let outages = store.outages();
    server.signal("-STOP");
    let asked: Vec<_> = (0..7)
        .map(|_| {
            let api = api.clone();
            tokio::spawn(async move { kind(&api).await })
        })
        .collect();
    for each in asked {
        let began = tokio::time::Instant::now();
        let answer = each.await.expect("no panic");
        assert_eq!(answer, Err(StoreErrorKind::TimedOut));
        assert!(began.elapsed() < Duration::from_secs(2));
    }
    assert_eq!((store.is_asked(), store.outages()), (false, outages + 1));
    for _ in 0..1000 {
        assert_eq!(kind(&api).await, Err(StoreErrorKind::CircuitOpen));
    }
    // One tries, and meanwhile nobody else.
    clock.advance(Duration::from_millis(100));
    let (first, second) = tokio::join!(kind(&api), kind(&api));
    assert_eq!(first, Err(StoreErrorKind::TimedOut));
    assert_eq!(second, Err(StoreErrorKind::CircuitOpen));
    assert_eq!(store.outages(), outages + 2);

    server.signal("-CONT");
    let mut failed = 0;
    loop {
        clock.advance(Duration::from_secs(5));
        match kind(&api).await {
            Ok(granted) => break assert!(granted),
            Err(_) => failed += 1,
        }
    }
    let seen = watcher.look(KEY).await.expect("a look").in_use;
    // Seven that timed out, one who tried, those who tried since, and the one that was granted: each at most once.
    assert!(
        seen > before && seen <= before + 7 + 1 + failed + 1,
        "{seen}"
    );
    assert!(store.is_asked());
}

#[tokio::test]
async fn while_a_store_is_stopped_each_process_grants_its_share_and_then_the_store_decides() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let limiter = store_on(server.port(), &clock)
        .limiter("api", ALL)
        .expect("a limiter");
    let api = limiter.fleet().outage(Outage::Local { share: 0.1 });
    let api = api.build().expect("a fleet");
    server.signal("-STOP");
    for left in (0..100).rev() {
        let permit = api.acquire_owned(KEY, 1.into()).await.expect("a share");
        let standing = permit.standing().expect("a standing");
        assert_eq!((standing.limit, standing.remaining.unwrap()), (100, left));
    }
    // Only those who found out waited; now it can be told at once.
    let denied = api.attempt(KEY, Demand::ONE).expect_err("no more");
    assert_eq!((denied.reason(), denied.limit()), (Reason::Exhausted, 100));
    assert_eq!((api.store().outages(), api.totals().undecided), (1, 101));
    server.signal("-CONT");
    let standing = loop {
        clock.advance(Duration::from_secs(5));
        if let Ok(permit) = api.acquire_owned(KEY, 1.into()).await {
            break permit.standing().expect("a standing");
        }
    };
    assert_eq!(standing.limit, 1000);
}
