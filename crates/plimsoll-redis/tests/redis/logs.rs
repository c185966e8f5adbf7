//! Logs: what is undone is one's own, and refusals that count do not pile up.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{Demand, ManualClock, Moment, PerKey, Quota, SlidingLog};
use plimsoll_redis::{Fleet, Store};

const KEY: &str = "subject";
const START: u64 = 1_789_000_000_123_456_789;

fn store(server: &Server, clock: &ManualClock) -> Store {
    server.store().clock(clock.clock()).open().expect("a store")
}

async fn in_use(fleet: &Fleet) -> u64 {
    fleet.limiter().look(KEY).await.expect("a look").in_use
}

/// Runs what was spawned in the background: one more script than before.
async fn sent(server: &Server, before: u64) {
    for _ in 0..2000 {
        if server.scripts_run() > before {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("nothing was sent");
}

/// Undoing took back whatever came after the moment of the grant: 2 more were granted in the same instant.
#[tokio::test]
async fn undoing_what_has_left_the_window_frees_nothing_of_others() {
    let server = Server::start();
    let clock = ManualClock::starting_at(Moment::from_nanos(START));
    let quota = Quota::new(2, Duration::from_secs(10));
    for (name, span) in [("left", 10), ("just before", 9)] {
        let limiter = store(&server, &clock).limiter(name, SlidingLog::new(quota));
        let fleet = limiter.expect("a limit").fleet().build().expect("a fleet");
        let old = fleet.acquire_owned(KEY, Demand::of(2)).await.expect("room");
        clock.advance(Duration::from_secs(span));
        if span == 10 {
            let new = fleet.acquire_owned(KEY, Demand::of(2)).await.expect("room");
            new.forget();
        }
        let before = server.scripts_run();
        old.undo();
        sent(&server, before).await;
        let left = if span == 10 { 2 } else { 0 };
        assert_eq!(in_use(&fleet).await, left, "{name}");
    }
}

/// 51,200 refused attempts left 5.5 MB: every one was kept, though only as many as the limit matter.
#[tokio::test]
async fn refusals_that_count_are_bounded_by_the_limit() {
    let server = Server::start();
    let clock = ManualClock::starting_at(Moment::from_nanos(START));
    let quota = Quota::new(20, Duration::from_secs(3600));
    let rule = SlidingLog::new(quota).counting_refusals();
    let limiter = store(&server, &clock).limiter("log", rule);
    let limiter = limiter.expect("a limit");
    for attempt in 0..3000 {
        clock.advance(Duration::from_micros(1700));
        let decision = limiter.decide(KEY, 1).await.expect("a decision");
        assert_eq!(decision.is_granted(), attempt < 20);
    }
    let key = server.cli(&["keys", "*"]);
    let members: u64 = server.cli(&["zcard", &key]).parse().expect("a number");
    assert!(members <= 20 + 3, "{members} members");
    let bytes: u64 = server
        .cli(&["memory", "usage", &key])
        .parse()
        .expect("a size");
    assert!(bytes < 10_000, "{bytes} bytes");
    // With the one that is estimated, whoever stops trying is granted when all but 19 have left.
    let denied = limiter.estimate(KEY, 1).await.expect("an answer");
    let told = denied.expect_err("refused").retry_after();
    assert_eq!(
        told,
        Some(Duration::from_secs(3600) - Duration::from_micros(1700 * 18))
    );
}
