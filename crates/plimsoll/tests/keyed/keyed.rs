//! A keyed limit answers as one limiter for each key would, however often keys are forgotten and found again.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use plimsoll::{
    Bandwidths, Carry, Concurrency, Denied, FixedWindow, Gate, Keyed, ManualClock, PenaltyBucket,
    Permit, Queue, Quota, Reason, Refresh, Rule, SlidingCounter, SlidingLog, SlidingWindow,
    TokenBucket, WhenFull,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

#[derive(Clone, Debug)]
enum Op {
    Try { key: u8, cost: u64 },
    Advance(u64),
    Look(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0u8..4, 0u64..5).prop_map(|(key, cost)| Op::Try { key, cost }),
        3 => prop_oneof![0u64..1_500, Just(1_000_000), Just(60_000_000_000)].prop_map(Op::Advance),
        1 => (0u8..4).prop_map(Op::Look),
    ];
    proptest::collection::vec(op, 1..80)
}

fn told(answer: Result<Permit<'_>, Denied>) -> Result<u64, (Reason, Option<Duration>, u64)> {
    answer
        .map(|permit| permit.cost())
        .map_err(|denied| (denied.reason(), denied.retry_after(), denied.remaining()))
}

/// Runs the same on a keyed limit and on a limiter for each key. Permits are dropped at once.
fn compare<R: Rule + Clone>(rule: &R, ops: &[Op]) {
    let time = ManualClock::new();
    let keyed: Keyed<u8, R> = Keyed::builder(rule.clone()).clock(time.clock()).build();
    let gate = || Gate::builder(rule.clone()).clock(time.clock()).build();
    let gates: HashMap<u8, Gate<R>> = (0..4).map(|key| (key, gate())).collect();
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Op::Try { key, cost } => {
                let estimate = keyed.estimate(&key, cost).map_err(|denied| denied.reason());
                let expected = told(gates[&key].try_acquire(cost));
                let came = told(keyed.try_acquire(&key, cost));
                assert_eq!(came, expected, "step {step}: {op:?}");
                let came = came.map(|_| ()).map_err(|(reason, ..)| reason);
                assert_eq!(estimate, came, "step {step}: {op:?}");
            }
            Op::Advance(nanos) => time.advance(Duration::from_nanos(nanos)),
            Op::Look(key) => {
                let expected = gates[&key].snapshot();
                // A key that is not known is as good as new.
                if let Some(came) = keyed.snapshot_of(&key) {
                    assert_eq!(
                        came.available(),
                        expected.available(),
                        "step {step}: {op:?}"
                    );
                    assert_eq!(came.in_use(), expected.in_use(), "step {step}: {op:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn keys_answer_as_limiters_of_their_own(ops in ops()) {
        let quota = Quota::new(4, Duration::from_nanos(1000));
        compare(&TokenBucket::greedy(quota), &ops);
        compare(&TokenBucket::greedy(Quota::new(6_172_839, Duration::from_secs(500))).burst(3), &ops);
        compare(&TokenBucket::interval(quota).burst(3), &ops);
        compare(&FixedWindow::new(quota), &ops);
        compare(&FixedWindow::new(Quota::new(3, Duration::from_nanos(1))), &ops);
        compare(&SlidingWindow::new(quota, 3), &ops);
        compare(&SlidingCounter::new(quota), &ops);
        compare(&SlidingLog::new(quota).min_gap(Duration::from_nanos(10)), &ops);
        compare(&Refresh::new(quota), &ops);
        compare(&Bandwidths::new([TokenBucket::greedy(quota), TokenBucket::interval(quota)]), &ops);
        let penalty = PenaltyBucket::new(TokenBucket::greedy(quota));
        compare(&penalty.lockout(2, Duration::from_micros(1)), &ops);
        compare(&Concurrency::new(3), &ops);
    }
}

fn hourly(time: &ManualClock, max_keys: usize) -> Keyed<u64, TokenBucket> {
    let rule = TokenBucket::greedy(Quota::per_hour(2));
    Keyed::builder(rule)
        .clock(time.clock())
        .max_keys(max_keys)
        .build()
}

#[test]
fn a_flood_of_new_keys_stays_within_bounds_and_resets_nobody() {
    let time = ManualClock::new();
    let keyed = hourly(&time, 1000);
    assert!(keyed.try_acquire(&u64::MAX, 2).is_ok());
    let mut refused = 0;
    for key in 0..100_000 {
        match keyed.try_acquire(&key, 1) {
            Ok(_) => {}
            Err(denied) => {
                assert_eq!(denied.reason(), Reason::KeysFull);
                refused += 1;
            }
        }
        assert!(keyed.len() <= 1000);
    }
    assert_eq!(refused, 100_000 - 999);
    assert_eq!(
        keyed.try_acquire(&u64::MAX, 1).unwrap_err().reason(),
        Reason::Exhausted
    );
    // After an hour all are as good as new, and make room.
    time.advance(Duration::from_secs(3600));
    assert!(keyed.try_acquire(&5_000_000, 1).is_ok());
    assert!(keyed.len() <= 1000);
}

#[test]
fn the_least_recently_used_makes_room_where_that_is_wanted() {
    let time = ManualClock::new();
    let rule = TokenBucket::greedy(Quota::per_hour(2));
    let builder = Keyed::builder(rule).clock(time.clock()).max_keys(2);
    let keyed: Keyed<u8, _> = builder.when_full(WhenFull::EvictLeastRecent).build();
    for key in [1, 2, 1] {
        time.advance(Duration::from_secs(1));
        assert!(keyed.try_acquire(&key, 1).is_ok());
    }
    assert!(keyed.try_acquire(&3, 1).is_ok());
    assert_eq!(keyed.len(), 2);
    assert!(keyed.snapshot_of(&2).is_none());
    assert_eq!(keyed.snapshot_of(&1).unwrap().available(), 0);
}

#[test]
fn idle_keys_are_forgotten_while_others_come() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(10);
    let keyed: Keyed<u64, _> = Keyed::builder(rule).clock(time.clock()).build();
    for key in 0..10_000 {
        assert!(keyed.try_acquire(&key, 1).is_ok());
    }
    for _ in 0..2000 {
        time.advance(Duration::from_millis(5));
        assert!(keyed.try_acquire(&0, 0).is_ok());
    }
    assert!(keyed.len() <= 1, "{} keys are still there", keyed.len());
}

#[test]
fn each_key_has_a_queue_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let keyed: Keyed<Box<str>, _> = Keyed::builder(Concurrency::new(1))
            .queue(Queue::fifo(1))
            .build();
        let red = keyed.acquire("red", 1).await.unwrap();
        let blue = keyed.acquire("blue", 1).await.unwrap();
        let waiting = tokio::spawn({
            let keyed = keyed.clone();
            async move { keyed.acquire("red", 1).await.map(|permit| permit.cost()) }
        });
        tokio::task::yield_now().await;
        assert_eq!(
            keyed.try_acquire("red", 1).unwrap_err().reason(),
            Reason::Exhausted
        );
        assert_eq!(keyed.snapshot().waiters(), 1);
        drop(blue);
        drop(red);
        assert_eq!(waiting.await.unwrap().unwrap(), 1);
        assert_eq!(keyed.snapshot().in_use(), 0);
    });
}

#[test]
fn a_key_can_have_limits_of_its_own_until_it_is_forgotten() {
    let time = ManualClock::new();
    let keyed = hourly(&time, 100);
    keyed
        .set_limit(&7, TokenBucket::greedy(Quota::per_hour(10)), Carry::Reset)
        .unwrap();
    assert!(keyed.try_acquire(&7, 10).is_ok());
    assert!(keyed.try_acquire(&8, 3).is_err());
    time.advance(Duration::from_secs(7200));
    assert!(keyed.try_acquire(&7, 10).is_ok());
    assert!(keyed.forget(&7));
    assert_eq!(
        keyed.try_acquire(&7, 10).unwrap_err().reason(),
        Reason::TooLarge
    );
}

/// A larger limit of a key wakes who waits for it, which may ask the same shard at once; and permits that are
/// out while the limit changes are not forgotten.
#[test]
fn a_key_that_is_given_more_wakes_who_waits_for_it() {
    struct Asks(Keyed<u8, Concurrency>);
    impl std::task::Wake for Asks {
        fn wake(self: std::sync::Arc<Self>) {
            assert!(self.0.estimate(&1, 0).is_ok());
        }
    }
    let keyed: Keyed<u8, _> = Keyed::builder(Concurrency::new(1))
        .max_keys(8)
        .queue(Queue::fifo(4))
        .build();
    let held = keyed.try_acquire(&1, 1).unwrap();
    let waker = std::sync::Arc::new(Asks(keyed.clone())).into();
    let mut waiting = Box::pin(keyed.acquire(&1, 1));
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    keyed
        .set_limit(&1, Concurrency::new(3), Carry::AsIs)
        .unwrap();
    assert!(waiting.as_mut().poll(&mut cx).is_ready());
    assert_eq!(keyed.snapshot_of(&1).unwrap().in_use(), 1);
    drop(held);
    assert_eq!(keyed.snapshot_of(&1).unwrap().available(), 3);
}

#[test]
fn a_change_reaches_every_key_and_carries_what_it_used() {
    let time = ManualClock::new();
    let keyed = hourly(&time, 100);
    for key in 0..50 {
        assert!(keyed.try_acquire(&key, 1).is_ok());
    }
    keyed.replace(TokenBucket::greedy(Quota::per_hour(8)), Carry::Proportional);
    for key in 0..50 {
        assert_eq!(keyed.snapshot_of(&key).unwrap().available(), 4);
    }
    assert!(keyed.try_acquire(&1000, 8).is_ok());
}

#[test]
fn the_keys_nearest_to_their_limits_come_first() {
    let time = ManualClock::new();
    let rule = TokenBucket::greedy(Quota::per_hour(10));
    let keyed: Keyed<u64, _> = Keyed::builder(rule).clock(time.clock()).build();
    for key in 0..10 {
        assert!(keyed.try_acquire(&key, key).is_ok());
    }
    let top: Vec<u64> = keyed.top(3).into_iter().map(|(key, _)| key).collect();
    assert_eq!(top, [9, 8, 7]);
    assert!(keyed.top(0).is_empty());
}

#[test]
fn threads_share_the_limit_of_a_key_exactly() {
    let time = ManualClock::new();
    let rule = TokenBucket::greedy(Quota::per_hour(1000));
    let keyed: Keyed<u8, _> = Keyed::builder(rule).clock(time.clock()).build();
    let granted: u64 = thread::scope(|scope| {
        let work = || {
            (0..4000)
                .filter(|i| keyed.try_acquire(&u8::from(i % 2 == 0), 1).is_ok())
                .count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| u64::try_from(thread.join().unwrap()).unwrap())
            .sum()
    });
    assert_eq!(granted, 2000);
    let snapshot = keyed.snapshot();
    assert_eq!(
        (snapshot.granted_total(), snapshot.denied_total()),
        (2000, 14_000)
    );
}

/// Panics when it is hashed or compared, if told to.
#[derive(Clone, Copy, Debug)]
struct Touchy(u8, bool);

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(!self.1, "touched");
        self.0.hash(state);
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Touchy {}

#[test]
fn a_key_that_panics_poisons_nothing() {
    let keyed: Keyed<Touchy, _> = Keyed::new(TokenBucket::greedy(Quota::per_hour(2)));
    assert!(keyed.try_acquire(&Touchy(1, false), 1).is_ok());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        keyed.try_acquire(&Touchy(1, true), 1).is_ok()
    }));
    assert!(panicked.is_err());
    assert!(keyed.try_acquire(&Touchy(1, false), 1).is_ok());
    assert!(keyed.try_acquire(&Touchy(1, false), 1).is_err());
}
