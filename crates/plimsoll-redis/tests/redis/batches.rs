//! Demands that wait for the same round trip are decided by one script, each as if it had been sent by itself.

use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::{
    Bandwidths, Concurrency, FixedWindow, ManualClock, Moment, Quota, SlidingCounter, SlidingLog,
    SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule, StoreErrorKind};
use proptest::prelude::*;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

const START: u64 = 1_789_000_000_123_456_789;
const KEYS: [&str; 3] = ["one", "two", "three"];

/// A wait, and the demands that come at once after it: for which key, and how much.
type Step = (u64, Vec<(usize, u64)>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![0..10_000_u64, 0..700_000_000_u64, 0..3_000_000_000_u64];
    let key = prop_oneof![6 => Just(0_usize), 1 => Just(1), 1 => Just(2)];
    let cost = prop_oneof![6 => Just(1_u64), 3 => 0..5_u64, 1 => 0..15_u64];
    let demands = prop::collection::vec((key, cost), 1..20);
    prop::collection::vec((wait, demands), 1..12)
}

/// What a decision says. Permits of leases are held.
fn words(decision: Decision) -> String {
    match decision {
        Decision::Granted(permit) => {
            let words = format!("{:?} {:?}", permit.standing(), permit.fence());
            permit.forget();
            words
        }
        Decision::Denied(denied) => format!("{denied:?}"),
    }
}

/// What is kept, without the names of leases, and without the sums of logs, of which only differences matter.
fn kept(server: &Server, key: &str) -> Vec<String> {
    let lines = match server.cli(&["type", key]).as_str() {
        "zset" => server.cli(&["zrange", key, "0", "-1", "withscores"]),
        "string" => server.cli(&["get", key]),
        _ => String::new(),
    };
    let nameless = |line: &str| match line.split(':').collect::<Vec<_>>()[..] {
        [nanos, _sum, cost] => format!("{nanos}:{cost}"),
        [_name, cost] if line.contains('~') => cost.to_owned(),
        _ => line.to_owned(),
    };
    let mut kept: Vec<_> = lines.lines().map(nameless).collect();
    kept.sort();
    kept
}

fn compare(letter: char, rule: impl Into<RedisRule>) {
    let (server, rule) = (Server::start(), rule.into());
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let time = ManualClock::starting_at(Moment::from_nanos(START));
    let limiter = |namespace: &str| {
        let store = server.store().namespace(namespace).raw_keys();
        let store = store.clock(time.clock()).open().expect("a store");
        store.limiter("x", rule.clone()).expect("a limit")
    };
    let (alone, together) = (limiter("alone"), limiter("together"));
    let run = async |steps: Vec<Step>| {
        for key in KEYS {
            alone.forget(key).await.expect("forgotten");
            together.forget(key).await.expect("forgotten");
        }
        for (wait, demands) in steps {
            time.advance(Duration::from_nanos(wait));
            let tasks: Vec<_> = demands
                .iter()
                .map(|demand| ask(&together, *demand))
                .collect();
            let mut expected = Vec::new();
            for (key, cost) in &demands {
                let decision = alone.decide(KEYS[*key], *cost).await.expect("a decision");
                expected.push(words(decision));
            }
            for (task, expected) in tasks.into_iter().zip(expected) {
                prop_assert_eq!(task.await.expect("a task"), expected);
            }
        }
        for key in KEYS {
            let name = |namespace: &str| format!("{namespace}:{{{key}}}:x:{letter}");
            let (one, other) = (name("alone"), name("together"));
            prop_assert_eq!(kept(&server, &one), kept(&server, &other));
        }
        Ok(())
    };
    for_all(16, &steps(), |steps| runtime.block_on(run(steps)));
}

fn ask(limiter: &RedisLimiter, (key, cost): (usize, u64)) -> JoinHandle<String> {
    let limiter = limiter.clone();
    tokio::spawn(async move { words(limiter.decide(KEYS[key], cost).await.expect("a decision")) })
}

fn second(units: u64) -> Quota {
    Quota::new(units, Duration::from_secs(1))
}

#[test]
fn of_fixed_windows() {
    compare('w', FixedWindow::new(second(10)));
    compare(
        'w',
        FixedWindow::new(Quota::new(10, Duration::from_nanos(700_000_001))),
    );
}

#[test]
fn of_sliding_windows() {
    compare('s', SlidingWindow::new(second(10), 7));
}

#[test]
fn of_sliding_counters() {
    compare('c', SlidingCounter::new(second(10)));
}

#[test]
fn of_token_buckets() {
    compare('b', TokenBucket::greedy(second(10)));
    compare('b', TokenBucket::interval(second(10)));
    let slow = TokenBucket::greedy(Quota::new(3, Duration::from_secs(1 << 31)));
    compare(
        'b',
        Bandwidths::new([TokenBucket::greedy(second(10)), slow]),
    );
}

#[test]
fn of_sliding_logs() {
    compare('l', SlidingLog::new(second(10)));
    compare('l', SlidingLog::new(second(10)).counting_refusals());
    let gap = Duration::from_millis(3);
    compare('l', SlidingLog::new(second(10)).min_gap(gap));
}

#[test]
fn of_leases() {
    compare(
        'k',
        RedisRule::from(Concurrency::new(10)).lease(Duration::from_secs(2)),
    );
}

/// Demands of a thousand callers take far fewer scripts than that.
#[tokio::test]
async fn those_who_wait_share_a_script() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let rule = FixedWindow::new(Quota::per_day(700));
    let limiter = store.limiter("x", rule).expect("a limit");
    let tasks: Vec<_> = (0..1000).map(|_| ask(&limiter, (0, 1))).collect();
    let mut denied = 0;
    for task in tasks {
        denied += u64::from(task.await.expect("a task").starts_with("Denied"));
    }
    assert_eq!(denied, 300);
    let scripts = server.scripts_run();
    assert!(scripts < 100, "{scripts} scripts for 1000 decisions");
}

/// The server is stopped while they come, so the first few are under way and the others wait.
#[tokio::test]
async fn one_who_gives_up_while_waiting_takes_nothing_and_nobody_else_is_lost() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let rule = FixedWindow::new(Quota::per_day(1000));
    let limiter = store.limiter("x", rule).expect("a limit");
    for _ in 0..5 {
        assert!(limiter.decide(KEYS[1], 1).await.is_ok());
    }
    server.signal("-STOP");
    let mut tasks: Vec<_> = (0..400).map(|_| ask(&limiter, (0, 1))).collect();
    tokio::task::yield_now().await;
    tasks.drain(300..).for_each(|task| task.abort());
    server.signal("-CONT");
    for task in tasks {
        assert!(task.await.expect("a task").starts_with("Standing"));
    }
    assert_eq!(limiter.look(KEYS[0]).await.expect("a look").in_use, 300);
}

#[tokio::test]
async fn a_key_that_holds_something_else_fails_its_own_demands_only() {
    let server = Server::start();
    let store = server.store().raw_keys().open().expect("a store");
    let rule = FixedWindow::new(Quota::per_day(100));
    let limiter = store.limiter("x", rule).expect("a limit");
    server.cli(&["lpush", "plimsoll:{two}:x:w", "something"]);
    let decide = |key: &'static str| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.decide(key, 1).await })
    };
    let tasks: Vec<_> = (0..60).map(|number| decide(KEYS[number % 3])).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.expect("a task") {
            Ok(decision) => assert!(decision.is_granted() && number % 3 != 1),
            Err(error) => {
                assert_eq!((error.kind(), number % 3), (StoreErrorKind::WrongType, 1));
            }
        }
    }
    for key in ["one", "three"] {
        assert_eq!(limiter.look(key).await.expect("a look").in_use, 20);
    }
    assert_eq!(store.stats().failures(StoreErrorKind::WrongType), 20);
}

#[tokio::test]
async fn a_script_that_fails_fails_all_its_demands_with_the_cause() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let rule = FixedWindow::new(Quota::per_day(100));
    let limiter = store.limiter("x", rule).expect("a limit");
    assert!(limiter.decide(KEYS[0], 1).await.is_ok());
    server.cli(&["replicaof", "127.0.0.1", "1"]);
    let tasks: Vec<_> = (0..30)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.decide(KEYS[1], 1).await })
        })
        .collect();
    for task in tasks {
        let error = task.await.expect("a task").expect_err("a replica");
        assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error:?}");
    }
    assert_eq!(store.stats().failures(StoreErrorKind::ReadOnly), 30);
}
