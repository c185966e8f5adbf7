//! What happens while the store is gone, stopped, full or empty, and after.

use std::time::Duration;

use crate::server::{Server, free_port, patient};
use plimsoll::{
    Concurrency, Demand, FixedWindow, Limiter, ManualClock, PerKey, Quota, Reason, TokenBucket,
};
use plimsoll_redis::{
    Circuit, Decision, Fleet, Outage, RedisLimiter, RedisRule, Store, StoreErrorKind,
};

const KEY: &str = "subject";

/// Circuits go by a clock moved by hand; answers take the time they take.
fn store_on(port: u16, clock: &ManualClock) -> Store {
    let store = Store::builder(&format!("redis://127.0.0.1:{port}"));
    store.clock(clock.clock()).open().expect("a store")
}

fn fleet(store: &Store, rule: impl Into<RedisRule>, outage: Outage) -> Fleet {
    let limiter = store.limiter("api", rule).expect("a limiter");
    limiter.fleet().outage(outage).build().expect("a fleet")
}

async fn kind(limiter: &RedisLimiter) -> Result<bool, StoreErrorKind> {
    let decision = limiter.decide(KEY, 1).await;
    match decision {
        Ok(decision) => Ok(decision.is_granted()),
        Err(error) => Err(error.kind()),
    }
}

const ALL: FixedWindow = FixedWindow::new(Quota::per_day(1000));

#[tokio::test]
async fn without_a_store_everything_is_refused_unless_said_otherwise() {
    let clock = ManualClock::new();
    let store = store_on(free_port(), &clock);
    let api = fleet(&store, TokenBucket::per_second(5), Outage::default());
    for _ in 0..20 {
        let denied = api
            .acquire_owned(KEY, 1.into())
            .await
            .expect_err("no store");
        assert_eq!(denied.reason(), Reason::Unavailable);
        assert_eq!((denied.limit(), denied.limiter()), (5, Some("api")));
    }
    assert_eq!((api.totals().undecided, api.totals().denied), (20, 20));
    let denied = api.attempt(KEY, Demand::ONE).expect_err("no store");
    assert_eq!(denied.reason(), Reason::Unavailable);
}

#[tokio::test]
async fn without_a_store_everything_is_granted_if_said_so() {
    let clock = ManualClock::new();
    let store = store_on(free_port(), &clock);
    let api = fleet(&store, TokenBucket::per_second(5), Outage::Admit);
    let one = api.key(KEY);
    // As long as the store is asked nobody can tell at once.
    assert!(api.attempt(KEY, Demand::ONE).is_err());
    for _ in 0..20 {
        let permit = api.acquire_owned(KEY, 1.into()).await.expect("admitted");
        assert_eq!(permit.standing(), None);
        permit.undo();
    }
    assert!(api.attempt(KEY, Demand::ONE).is_ok());
    assert!(one.try_acquire(Demand::of(100)).is_ok());
    assert!(one.estimate(Demand::ONE).is_ok());
    // When somebody has to try, it is one who can wait.
    clock.advance(Duration::from_millis(100));
    assert!(api.attempt(KEY, Demand::ONE).is_err());
    assert_eq!(api.totals().granted, 22);
}

#[tokio::test]
async fn without_a_store_each_process_grants_its_share_if_said_so() {
    let clock = ManualClock::new();
    let store = store_on(free_port(), &clock);
    let outage = Outage::Local { share: 0.25 };
    let api = fleet(&store, TokenBucket::per_second(20), outage);
    let mut permits = Vec::new();
    for left in (0..5).rev() {
        let permit = api.acquire_owned(KEY, 1.into()).await.expect("a share");
        let standing = permit.standing().expect("a standing");
        assert_eq!((standing.limit, standing.remaining.unwrap()), (5, left));
        permits.push(permit);
    }
    let denied = api.acquire_owned(KEY, 1.into()).await.expect_err("no more");
    assert_eq!(denied.reason(), Reason::Exhausted);
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    assert_eq!((denied.limit(), denied.limiter()), (5, Some("api")));
    assert!(api.attempt("another", Demand::ONE).is_ok());
    // Undone and charged it is here too.
    permits.pop().expect("a permit").undo();
    assert!(api.attempt(KEY, Demand::ONE).is_ok());
    clock.advance(Duration::from_secs(1));
    api.charge(KEY, 4);
    while api.totals().lost == 0 && api.attempt(KEY, Demand::of(2)).is_ok() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(api.totals().lost, 0);

    let jobs = fleet(&store, Concurrency::new(8), outage);
    let held = jobs.acquire_owned(KEY, 2.into()).await.expect("a share");
    let denied = jobs.acquire_owned(KEY, 1.into()).await.expect_err("held");
    assert_eq!((denied.reason(), denied.limit()), (Reason::Exhausted, 2));
    drop(held);
    assert!(jobs.acquire_owned(KEY, 2.into()).await.is_ok());
}

#[tokio::test]
async fn a_program_may_start_before_its_store() {
    let (port, clock) = (free_port(), ManualClock::new());
    let store = patient(Store::builder(&format!("redis://127.0.0.1:{port}")));
    let circuit = Circuit::new().failures(2);
    let store = store.clock(clock.clock()).circuit(circuit).open();
    let store = store.expect("a store");
    let api = fleet(&store, ALL, Outage::Deny);
    for _ in 0..2 {
        assert!(api.acquire_owned(KEY, 1.into()).await.is_err());
    }
    assert!(!store.is_asked());
    let server = Server::on(port, &[]);
    clock.advance(Duration::from_millis(100));
    assert!(api.acquire_owned(KEY, 1.into()).await.is_ok());
    drop(server);
}

#[tokio::test]
async fn a_store_that_forgets_everything_goes_on() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let api = store
        .limiter("api", FixedWindow::new(Quota::per_day(1)))
        .expect("a limiter");
    assert_eq!((kind(&api).await, kind(&api).await), (Ok(true), Ok(false)));
    server.cli(&["flushall"]);
    assert_eq!((kind(&api).await, kind(&api).await), (Ok(true), Ok(false)));
    server.cli(&["script", "flush"]);
    let before = server.scripts_run();
    assert_eq!((kind(&api).await, kind(&api).await), (Ok(false), Ok(false)));
    // The first was not known by its hash, so it was sent whole.
    assert_eq!(server.scripts_run() - before, 3);
    assert_eq!((store.is_asked(), store.outages()), (true, 0));
}

#[tokio::test]
async fn a_store_that_answers_with_an_error_is_not_left_alone() {
    let (server, clock) = (Server::start(), ManualClock::new());
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let api = store.limiter("api", ALL).expect("a limiter");
    assert_eq!(kind(&api).await, Ok(true));
    server.cli(&["config", "set", "maxmemory", "1"]);
    for _ in 0..20 {
        assert_eq!(kind(&api).await, Err(StoreErrorKind::OutOfMemory));
    }
    let api = fleet(&store, ALL, Outage::Admit);
    assert!(api.acquire_owned(KEY, 1.into()).await.is_ok());
    server.cli(&["config", "set", "maxmemory", "0"]);
    server.cli(&["acl", "setuser", "default", "-evalsha"]);
    for _ in 0..20 {
        assert_eq!(
            kind(&api.limiter()).await,
            Err(StoreErrorKind::NotPermitted)
        );
    }
    server.cli(&["acl", "setuser", "default", "+evalsha"]);
    let decision = api.limiter().decide(KEY, 1).await.expect("a decision");
    assert!(matches!(decision, Decision::Granted(_)));
    assert_eq!((store.is_asked(), store.outages()), (true, 0));
}
