//! Ten thousand keys, all walked through in the same order at the same time.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll::{Concurrency, FixedWindow, Quota, SlidingWindow, TokenBucket};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule, Store};
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::children::{PROCESSES, hammer};
use crate::process::{Tools, say};
use crate::seconds;
use crate::server::Server;

const KEYS: usize = 10_000;
const LIMIT: u64 = 3;
const TASKS: usize = 16;

/// So many demands each process makes at least, on the same keys as the others.
const ENOUGH: usize = 600;

/// Limits that do not replenish during a test: the keys take turns with them.
fn limiters(store: &Store) -> Vec<RedisLimiter> {
    let ages = Duration::from_secs(1000 * 24 * 60 * 60);
    let quota = Quota::new(LIMIT, ages);
    let jobs = RedisRule::from(Concurrency::new(LIMIT)).lease(Duration::from_secs(600));
    let rules: [RedisRule; 4] = [
        TokenBucket::greedy(quota).into(),
        FixedWindow::new(quota).aligned_to_epoch().into(),
        SlidingWindow::new(quota, 10).into(),
        jobs,
    ];
    let limiter = |rule| store.limiter("many", rule).expect("a limiter");
    rules.into_iter().map(limiter).collect()
}

pub(crate) async fn run(tools: Tools) {
    let end = Instant::now() + Duration::from_secs(seconds());
    let limiters = Rc::new(limiters(&tools.store));
    let next = Rc::new(AtomicUsize::new(0));
    let counts: Rc<Vec<_>> = Rc::new(
        (0..KEYS)
            .map(|_| [const { AtomicU32::new(0) }; 2])
            .collect(),
    );
    let tasks = LocalSet::new();
    for _ in 0..TASKS {
        let (limiters, next, counts) = (Rc::clone(&limiters), Rc::clone(&next), Rc::clone(&counts));
        tasks.spawn_local(async move {
            // For so long, and until enough was asked that some keys are used up.
            while Instant::now() < end || next.load(Ordering::Relaxed) < ENOUGH {
                let key = next.fetch_add(1, Ordering::Relaxed) % KEYS;
                let [asked, granted] = &counts[key];
                asked.fetch_add(1, Ordering::Relaxed);
                let limiter = &limiters[key % limiters.len()];
                let decision = limiter.decide(key.to_string(), 1).await;
                if let Decision::Granted(permit) = decision.expect("a decision") {
                    granted.fetch_add(1, Ordering::Relaxed);
                    permit.forget();
                }
            }
        });
    }
    tasks.await;
    for (key, [asked, granted]) in counts.iter().enumerate() {
        let (asked, granted) = (
            asked.load(Ordering::Relaxed),
            granted.load(Ordering::Relaxed),
        );
        if asked > 0 {
            say(&format!("{key} {asked} {granted}"));
        }
    }
}

#[test]
fn of_ten_thousand_keys_each_is_granted_exactly_its_limit() {
    let server = Server::start();
    let (said, ..) = hammer(&server, "many keys");
    let mut counts = vec![(0, 0); KEYS];
    for line in said.iter().flatten().filter(|line| *line != "done") {
        let mut numbers = line
            .split(' ')
            .map(|word| word.parse::<u64>().expect("a number"));
        let mut number = || numbers.next().expect("three numbers");
        let (asked, granted): &mut (u64, u64) =
            &mut counts[usize::try_from(number()).expect("a key")];
        *asked += number();
        *granted += number();
    }
    for (key, (asked, granted)) in counts.iter().enumerate() {
        assert_eq!(
            *granted,
            LIMIT.min(*asked),
            "key {key}, asked for {asked} times"
        );
    }
    let known = counts.iter().filter(|(asked, _)| *asked > LIMIT).count();
    let asked: u64 = counts.iter().map(|(asked, _)| asked).sum();
    println!("{asked} decisions by {PROCESSES} processes used up {known} of {KEYS} keys");
    assert!(known >= 500, "{known} keys were used up");

    // And so it is in the store.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = server.store().open().expect("a store");
        let limiters = limiters(&store);
        for (key, (_, granted)) in counts.iter().enumerate().take(400) {
            let limiter = &limiters[key % limiters.len()];
            let seen = limiter.look(key.to_string()).await.expect("a look");
            assert_eq!(seen.available, (LIMIT - granted), "key {key}");
        }
    });
}
