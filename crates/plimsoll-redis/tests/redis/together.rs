//! Several limits in one decision, and many decisions at the same time.

use std::sync::Arc;
use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::{
    All, Concurrency, FixedWindow, Gate, InvalidLimit, Limiter, ManualClock, Quota, SlidingCounter,
    SlidingLog, SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisAll};
use proptest::prelude::*;

const KEY: &str = "subject";

#[tokio::test]
async fn all_or_none_is_taken_and_the_refusal_names_its_limiter() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let many = store
        .limiter("many", FixedWindow::new(Quota::per_hour(100)))
        .expect("a limit");
    let few = store.limiter("few", Concurrency::new(2)).expect("a limit");
    let all = store.all([many.clone(), few.clone()]).expect("both");

    let permit = all.decide(KEY, 2).await.expect("a decision");
    assert!(permit.is_granted());
    let Decision::Denied(denied) = all.decide(KEY, 1).await.expect("a decision") else {
        panic!("granted beyond the limit");
    };
    assert_eq!(denied.limiter(), Some("few"));
    assert_eq!(denied.retry_after(), None);
    assert_eq!(many.look(KEY).await.expect("a look").in_use, 2);

    let permit = permit.into_result().expect("a permit");
    assert_eq!(permit.standing().remaining.unwrap(), 0);
    assert!(permit.release().await.expect("an answer"));
    assert_eq!(few.look(KEY).await.expect("a look").in_use, 0);
    assert_eq!(many.look(KEY).await.expect("a look").in_use, 2);
}

#[tokio::test]
async fn what_cannot_be_decided_together_is_refused_when_it_is_built() {
    let server = Server::start();
    let (store, other) = (server.store().open(), server.store().open());
    let (store, other) = (store.expect("a store"), other.expect("a store"));
    let rule = || TokenBucket::per_second(1);
    let here = store.limiter("a", rule()).expect("a limit");
    let there = other.limiter("b", rule()).expect("a limit");
    let told = |all: Result<RedisAll, InvalidLimit>| all.unwrap_err().to_string();
    assert_eq!(
        told(store.all([])),
        "`of` is empty: expected at least 1 limiter"
    );
    assert_eq!(
        told(store.all([here.clone(), there])),
        "`of` is b: expected a limiter of the same store"
    );
    assert_eq!(
        told(store.all([here.clone(), here])),
        "`of` is a: expected each limiter once"
    );
}

/// Waits, and costs.
fn asked() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..700_000_000_u64, 0..5_u64), 1..60)
}

#[test]
fn all_answers_as_in_memory() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = Server::start();
    let run = async |asked: Vec<(u64, u64)>| {
        let time = ManualClock::new();
        let store = server.store().clock(time.clock()).open().expect("a store");
        let second = |units| Quota::new(units, Duration::from_millis(1100));
        let log = SlidingLog::new(second(7)).min_gap(Duration::from_millis(3));
        let log = log.counting_refusals();
        let (mut here, mut there) = (Vec::<Arc<dyn Limiter>>::new(), Vec::new());
        macro_rules! both {
            ($name:literal, $rule:expr) => {
                let gate = Gate::builder($rule).clock(time.clock()).name($name);
                here.push(Arc::new(gate.build()));
                there.push(store.limiter($name, $rule).expect("a limit"));
            };
        }
        both!("window", FixedWindow::new(second(9)));
        both!("log", log.clone());
        both!("bucket", TokenBucket::per_second(5));
        both!("counter", SlidingCounter::new(second(8)));
        both!("segments", SlidingWindow::new(second(8), 4));
        let (here, all) = (All::new(here), store.all(there.clone()).expect("all"));
        for limiter in &there {
            limiter.forget(KEY).await.expect("forgetting");
            limiter.begin(KEY).await.expect("a beginning");
        }
        for (wait, cost) in asked {
            time.advance(Duration::from_nanos(wait));
            let one = here.try_acquire(cost).map(drop);
            let other = all.decide(KEY, cost).await.expect("a decision");
            match (one, other.into_result()) {
                (Ok(()), Ok(_)) => {}
                (Err(one), Err(other)) => {
                    prop_assert_eq!(one.limiter(), other.limiter());
                    prop_assert_eq!(one.reason(), other.reason());
                    prop_assert_eq!(one.retry_after(), other.retry_after());
                }
                (one, other) => prop_assert!(false, "{:?} and {:?}", one, other),
            }
        }
        Ok(())
    };
    for_all(40, &asked(), |asked| runtime.block_on(run(asked)));
}

fn stat(server: &Server, name: &str) -> u64 {
    let info = server.cli(&["info", "all"]);
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim_start_matches(':').trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {name} in {info}"))
}

#[tokio::test]
async fn decisions_at_the_same_time_share_a_connection_and_round_trips() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let rule = FixedWindow::new(Quota::per_day(700));
    let limiter = store.limiter("api", rule).expect("a limit");
    assert!(limiter.estimate(KEY, 1).await.expect("an estimate").is_ok());
    let reads = stat(&server, "total_reads_processed");

    let tasks: Vec<_> = (0..1000)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.decide(KEY, 1).await.expect("a decision") })
        })
        .collect();
    let mut granted = 0;
    for task in tasks {
        granted += u64::from(task.await.expect("a task").is_granted());
    }
    assert_eq!(granted, 700);
    // This one and the one that asks.
    assert_eq!(stat(&server, "connected_clients"), 2);
    let reads = stat(&server, "total_reads_processed") - reads;
    assert!(reads < 500, "{reads} reads for 1000 decisions");
}

#[tokio::test]
async fn processes_share_what_they_use_and_namespaces_do_not() {
    let server = Server::start();
    let limiter = |namespace: &str| {
        let store = server.store().namespace(namespace).open().expect("a store");
        let rule = FixedWindow::new(Quota::per_day(10));
        store.limiter("api", rule).expect("a limit")
    };
    let (one, same, other) = (limiter("shop"), limiter("shop"), limiter("blog"));
    assert!(one.decide(KEY, 6).await.expect("a decision").is_granted());
    assert!(!same.decide(KEY, 6).await.expect("a decision").is_granted());
    assert!(other.decide(KEY, 6).await.expect("a decision").is_granted());
}
