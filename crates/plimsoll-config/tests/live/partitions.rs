//! Partitions of a file, whose keys name shares.

use std::pin::pin;
use std::task::Poll;

use plimsoll::{ManualClock, Outcome, Reason};
use plimsoll_config::KeyedLimiter;

use crate::files::{build, poll, replace};

const POOL: &str = "kind: partitions, shares: { live: 7, batch: 3 }, queue: { bound: 9 }";

fn in_use(keys: &KeyedLimiter, key: &str) -> u64 {
    keys.snapshot_of(key).expect("known").in_use()
}

#[test]
fn the_key_of_partitions_names_a_share() {
    let time = ManualClock::new();
    let limits = build(
        &format!("limits: {{ pool: {{ {POOL}, limit: 10, others: batch }} }}"),
        &time,
    );
    let pool = limits.keyed("pool").expect("there");
    assert_eq!(pool.kind(), plimsoll_kinds::LimiterKind::Resource);
    // Nobody else asks: batch work may have the whole limit, whatever its key is called.
    let all = pool.try_acquire("reports", 10).expect("granted");
    assert_eq!((in_use(&pool, "batch"), in_use(&pool, "live")), (10, 0));
    let mut live = pin!(pool.acquire("live", 7));
    assert!(poll(live.as_mut()).is_pending());
    drop(all);
    let Poll::Ready(Ok(busy)) = poll(live.as_mut()) else {
        panic!("its share is free");
    };
    assert!(pool.try_acquire("batch", 4).is_err());
    assert!(pool.try_acquire("batch", 3).is_ok());
    drop(busy);
}

#[test]
fn shares_and_their_limit_change_while_work_is_under_way() {
    let time = ManualClock::new();
    let file = |more: &str| {
        format!("limits: {{ pool: {{ kind: partitions, queue: {{ bound: 9 }}, {more} }} }}")
    };
    let limits = build(&file("limit: 10, shares: { live: 7, batch: 3 }"), &time);
    let pool = limits.keyed("pool").expect("there");
    let denied = pool.try_acquire("reports", 1).expect_err("no such share");
    assert_eq!(denied.reason(), Reason::NoKey);
    let _held = (
        pool.try_acquire("live", 5).expect("granted"),
        pool.try_acquire("batch", 3).expect("granted"),
    );
    let changes = replace(&limits, &file("limit: 20, shares: { live: 1, batch: 1 }"));
    assert_eq!(changes.changed, ["pool"]);
    assert_eq!((in_use(&pool, "live"), in_use(&pool, "batch")), (5, 3));
    let share = |key| pool.snapshot_of(key).expect("known").limit();
    assert_eq!((share("live"), share("batch")), (10, 10));

    // Other shares are another limiter.
    let changes = replace(
        &limits,
        &file("limit: 20, shares: { live: 1, batch: 1, night: 2 }"),
    );
    assert_eq!(changes.replaced, ["pool"]);
    assert!(pool.try_acquire("night", 10).is_ok());
    let adaptive =
        "adaptive: { algorithm: aimd, min: 4, initial: 8 }, shares: { live: 3, batch: 1 }";
    let changes = replace(&limits, &file(adaptive));
    assert_eq!(changes.replaced, ["pool"]);
    assert_eq!((share("live"), share("batch")), (6, 2));
    let permit = pool.try_acquire("live", 1).expect("granted");
    permit.finish(Outcome::Overload);
    assert_eq!((share("live"), share("batch")), (5, 1));
}
