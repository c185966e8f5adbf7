//! What is held at once.

use std::time::Duration;

use plimsoll::Concurrency;
use plimsoll_redis::{Decision, RedisLimiter, RedisRule, Store};
use redis::AsyncCommands;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::children::{PROCESSES, Process, hammer};
use crate::process::{Tools, say};
use crate::seconds;
use crate::server::Server;

const KEY: &str = "everybody";
const LIMIT: u64 = 10;
const TASKS: usize = 4;
const LEASE: Duration = Duration::from_secs(2);
/// Of those that are killed.
const HELD: u64 = 4;

fn limiter(store: &Store, limit: u64, lease: Duration) -> RedisLimiter {
    let rule = RedisRule::from(Concurrency::new(limit)).lease(lease);
    store.limiter("jobs", rule).expect("a limiter")
}

/// Takes and gives back, and counts while it holds: in the store, but not by a limiter.
pub(crate) async fn run(tools: Tools) {
    let end = Instant::now() + Duration::from_secs(seconds());
    let jobs = limiter(&tools.store, LIMIT, Duration::from_secs(30));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (jobs, mut plain) = (jobs.clone(), tools.plain.clone());
        tasks.spawn(async move {
            let (mut most, mut granted) = (0_i64, 0_u64);
            while Instant::now() < end {
                let decision = jobs.decide(KEY, 1).await.expect("a decision");
                let Decision::Granted(permit) = decision else {
                    continue;
                };
                granted += 1;
                let held: i64 = plain.incr("held", 1).await.expect("a count");
                most = most.max(held);
                let _: i64 = plain.decr("held", 1).await.expect("a count");
                assert!(permit.release().await.expect("an answer"), "it was lost");
            }
            (most, granted)
        });
    }
    while let Some(task) = tasks.join_next().await {
        let (most, granted) = task.expect("no panic");
        say(&format!("{most} {granted}"));
    }
}

/// Holds until it is killed.
pub(crate) async fn hold(tools: Tools) {
    let jobs = limiter(&tools.store, HELD, LEASE);
    let mut held = Vec::new();
    for _ in 0..HELD {
        let decision = jobs.decide(KEY, 1).await.expect("a decision");
        held.push(decision.into_result().expect("room"));
    }
    say("held");
    // Nobody outlives the test for long.
    sleep(Duration::from_secs(120)).await;
    drop(held);
}

#[test]
fn never_is_more_held_than_the_limit() {
    let server = Server::start();
    let (said, ..) = hammer(&server, "leases");
    let mut most = 0;
    let mut each = Vec::new();
    for process in &said {
        let mut sum = 0;
        for line in process.iter().filter(|line| *line != "done") {
            let (held, granted) = line.split_once(' ').expect("two numbers");
            most = most.max(held.parse().expect("a number"));
            sum += granted.parse::<u64>().expect("a number");
        }
        each.push(sum);
    }
    let (least, highest) = (each.iter().min(), each.iter().max());
    println!(
        "leases: {} granted to {PROCESSES} processes, {} to {} each; {most} of {LIMIT} held at once",
        each.iter().sum::<u64>(),
        least.expect("processes"),
        highest.expect("processes"),
    );
    assert!(most > 1 && most <= LIMIT, "{most} held at once");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = server.store().open().expect("a store");
    let seen = runtime.block_on(limiter(&store, LIMIT, LEASE).look(KEY));
    assert_eq!(seen.expect("a look").in_use, 0);
}

#[tokio::test]
async fn what_a_killed_process_held_is_free_when_its_leases_have_run_out() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let jobs = limiter(&store, HELD, LEASE);
    let mut process = Process::start(&server, "hold");
    process.go();
    assert_eq!(process.says().as_deref(), Some("ready"));
    assert_eq!(process.says().as_deref(), Some("held"));
    let held = HELD;
    let in_use = async || jobs.look(KEY).await.expect("a look").in_use;

    // They are renewed as long as it lives.
    let began = Instant::now();
    while began.elapsed() < LEASE * 3 / 2 {
        assert_eq!(in_use().await, held);
        sleep(Duration::from_millis(50)).await;
    }
    let killed = Instant::now();
    process.kill();
    assert!(!jobs.decide(KEY, 1).await.expect("a decision").is_granted());
    while in_use().await > 0 {
        assert!(
            killed.elapsed() < LEASE + Duration::from_secs(3),
            "still held"
        );
        sleep(Duration::from_millis(20)).await;
    }
    println!(
        "free {:?} after the kill, leases of {LEASE:?}",
        killed.elapsed()
    );
    // Not at once: the last renewal was at most a third of the lease ago, or a little more.
    assert!(killed.elapsed() > LEASE / 4);
    let all = jobs.decide(KEY, HELD).await.expect("a decision");
    assert!(all.is_granted());
}
