//! Kinds of limits that only a file puts together: adaptive limits by key, queues for memory and processor time; and metadata of
//! every kind.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use plimsoll::{ManualClock, Outcome, Reason};
use plimsoll_ambient::{CpuReading, MemoryReading, Sampler};
use plimsoll_config::KeyedLimiter;

use crate::files::{build, config, poll, replace};

fn limit_of(keys: &KeyedLimiter, key: &str) -> u64 {
    plimsoll::PerKey::standing(keys, key).limit
}

fn finish(keys: &KeyedLimiter, key: &str, outcome: Outcome) {
    keys.try_acquire(key, 1).expect("granted").finish(outcome);
}

const PER_BACKEND: &str = "kind: adaptive, algorithm: aimd, min: 1, initial: 10, keyed: true";

#[test]
fn each_key_of_an_adaptive_limit_learns_for_itself() {
    let time = ManualClock::new();
    let limits = build(
        &format!("limits: {{ backend: {{ {PER_BACKEND}, max_keys: 2 }} }}"),
        &time,
    );
    let backend = limits.keyed("backend").expect("there");
    finish(&backend, "slow", Outcome::Overload);
    assert_eq!(limit_of(&backend, "slow"), 9);
    assert_eq!(limit_of(&backend, "fast"), 10);

    // The number of keys is bounded: what a key has learned is not forgotten for another.
    let _held = backend.try_acquire("fast", 1).expect("granted");
    let denied = backend.try_acquire("third", 1).expect_err("no room");
    assert_eq!(denied.reason(), Reason::KeysFull);
}

#[test]
fn what_keys_have_learned_outlives_a_change_of_their_queue_and_number() {
    let time = ManualClock::new();
    let file = |more: &str| format!("limits: {{ backend: {{ {PER_BACKEND}{more} }} }}");
    let limits = build(&file(", max_keys: 1"), &time);
    let backend = limits.keyed("backend").expect("there");
    finish(&backend, "slow", Outcome::Overload);

    let changes = replace(&limits, &file(", max_keys: 5, queue: { bound: 3 }"));
    assert_eq!(changes.changed, ["backend"]);
    assert_eq!(limit_of(&backend, "slow"), 9);
    assert!(backend.try_acquire("other", 1).is_ok());
    let held = backend.try_acquire("slow", 9).expect("granted");
    let mut waiting = pin!(backend.acquire("slow", 1));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(held);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok(_))));

    // Another algorithm begins as the file says.
    let other =
        "limits: { backend: { kind: adaptive, algorithm: vegas, initial: 4, keyed: true } }";
    let changes = replace(&limits, other);
    assert_eq!(changes.replaced, ["backend"]);
    assert_eq!(limit_of(&backend, "slow"), 4);
    time.advance(Duration::from_secs(1));
    assert!(backend.try_acquire("slow", 4).is_ok());
}

#[test]
fn every_algorithm_can_be_had_by_key() {
    for algorithm in [
        "aimd",
        "vegas",
        "gradient2",
        "latency_gradient",
        "verdict",
        "windowed, delegate: { algorithm: vegas }",
    ] {
        let time = ManualClock::new();
        let text =
            format!("limits: {{ a: {{ kind: adaptive, algorithm: {algorithm}, key: client }} }}");
        let limits = build(&text, &time);
        let keys = limits.keyed("a").expect("there");
        let first = limit_of(&keys, "one");
        for _ in 0..100 {
            let permit = keys.try_acquire("one", 1).expect("granted");
            time.advance(Duration::from_millis(10));
            permit.finish(Outcome::Overload);
        }
        assert_eq!(limit_of(&keys, "other"), first, "{algorithm}");
    }
}

/// A sampler that says of memory, and of processor time in milliseconds, what it is told.
fn fed(time: &ManualClock) -> (Sampler, Arc<AtomicU64>) {
    let sampler = Sampler::new(time.clock());
    let said = Arc::new(AtomicU64::new(0));
    let used = Arc::clone(&said);
    sampler.memory_source(move || {
        Ok(MemoryReading {
            used: used.load(Ordering::Relaxed),
            total: Some(1000),
        })
    });
    let used = Arc::clone(&said);
    sampler.cpu_source(move || {
        Ok(CpuReading {
            used: Duration::from_millis(used.load(Ordering::Relaxed)),
            cores: 1.0,
        })
    });
    (sampler, said)
}

#[test]
fn memory_of_a_file_is_waited_for_and_a_change_of_the_file_keeps_who_waits() {
    let time = ManualClock::new();
    let (sampler, used) = fed(&time);
    let file = |limit: &str| {
        config(&format!(
            "limits: {{ heap: {{ kind: memory, hard_limit: {limit}, spike: 200B, queue: {{ bound: 2 }} }} }}"
        ))
    };
    used.store(900, Ordering::Relaxed);
    let limits = file("1000B").build_sampled(&sampler).expect("builds");
    let heap = limits.limiter("heap").expect("there");
    assert_eq!(heap.kind(), plimsoll_kinds::LimiterKind::Basic);
    let denied = heap.try_acquire(1.into()).expect_err("saturated");
    assert_eq!(denied.reason(), Reason::Saturated);
    let mut first = pin!(heap.acquire(1.into()));
    let mut second = pin!(heap.acquire_owned(1.into()));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    let full = heap.acquire(1.into());
    let mut full = pin!(full);
    let Poll::Ready(Err(denied)) = poll(full.as_mut()) else {
        panic!("the bound holds");
    };
    assert_eq!(denied.reason(), Reason::QueueFull);

    // Another limit that is saturated too: who waits goes on waiting, in its queue.
    let changes = limits.replace(&file("900B")).expect("builds");
    assert_eq!(changes.replaced, ["heap"]);
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert_eq!(heap.snapshot().waiters(), 2);

    time.advance(Duration::from_secs(1));
    used.store(100, Ordering::Relaxed);
    sampler.sample().expect("measured");
    assert!(matches!(poll(first.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(_))));
}

#[test]
fn processor_time_of_a_file_is_waited_for_alone_and_among_others() {
    let time = ManualClock::new();
    let (sampler, used) = fed(&time);
    let limits = config(
        "limits:
  busy: { kind: cpu, threshold: 80%, smoothing: 0s, queue: { bound: 9, timeout: 5s } }
  slots: { concurrency: 1, queue: { bound: 9 } }
  both: { kind: all, of: [busy, slots] }
  either: { kind: all, of: [busy] }
",
    )
    .build_sampled(&sampler)
    .expect("builds");
    let sample = |busy: u64| {
        time.advance(Duration::from_secs(1));
        used.fetch_add(busy, Ordering::Relaxed);
        sampler.sample().expect("measured");
    };
    sample(900);
    let all = limits.limiter("both").expect("there");
    let mut both = pin!(all.acquire(1.into()));
    let (alone, same) = (
        limits.limiter("busy").expect("there"),
        limits.limiter("either").expect("there"),
    );
    let mut busy = pin!(alone.acquire(1.into()));
    let mut basic = pin!(same.acquire(1.into()));
    assert!(poll(both.as_mut()).is_pending());
    assert!(poll(busy.as_mut()).is_pending() && poll(basic.as_mut()).is_pending());
    sample(900);
    assert!(poll(both.as_mut()).is_pending());
    sample(100);
    assert!(matches!(poll(both.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(poll(busy.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(poll(basic.as_mut()), Poll::Ready(Ok(_))));

    // The time-out of the queue ends a wait that no sample does.
    sample(900);
    let mut late = pin!(alone.acquire(1.into()));
    assert!(poll(late.as_mut()).is_pending());
    time.advance(Duration::from_secs(5) + Duration::from_nanos(1));
    let polled = poll(late.as_mut());
    let Poll::Ready(Err(denied)) = polled else {
        panic!("it has waited long enough: {polled:?}");
    };
    assert_eq!(denied.reason(), Reason::TimedOut);
}

#[test]
fn metadata_of_a_file_is_on_refusals_and_permits_of_every_kind_and_changes_with_it() {
    let time = ManualClock::new();
    let file = |code: u32| {
        let about =
            format!("metadata: {{ phrase: Slow down, code: {code}, pairs: {{ plan: free }} }}");
        format!(
            "limits:
  rate: {{ rate: 1/h, {about} }}
  slots: {{ concurrency: 1, {about} }}
  keyed: {{ rate: 1/h, key: client, {about} }}
  learned: {{ kind: adaptive, algorithm: aimd, min: 1, initial: 1, max: 2, {about} }}
  shares: {{ kind: partitions, limit: 1, shares: {{ a: 1 }}, {about} }}
  calls: {{ kind: policies, handlers: {{ a: {{ rps: 1 }} }}, {about} }}
"
        )
    };
    let limits = build(&file(7), &time);
    let check = |code: i64| {
        let seen = |granted: Result<plimsoll::Permit<'_>, plimsoll::Denied>| {
            let denied = granted.expect_err("used up");
            assert_eq!(
                (denied.phrase(), denied.get("code")),
                ("Slow down", Some(code.into()))
            );
            assert_eq!(denied.get("plan"), Some("free".into()));
        };
        for name in ["rate", "slots", "learned"] {
            seen(limits.limiter(name).expect("there").try_acquire(1.into()));
        }
        for (name, key) in [("keyed", "a"), ("shares", "a"), ("calls", "a|b")] {
            seen(limits.keyed(name).expect("there").try_acquire(key, 1));
        }
    };
    let slots = limits.limiter("slots").expect("there");
    let held = slots.try_acquire(1.into()).expect("granted");
    let about = held.metadata().expect("it says something");
    assert_eq!(about.get("plan"), Some("free".into()));
    let learned = limits.limiter("learned").expect("there");
    let shares = limits.keyed("shares").expect("there");
    let _all = (
        limits
            .limiter("rate")
            .expect("there")
            .try_acquire(1.into())
            .is_ok(),
        limits
            .keyed("keyed")
            .expect("there")
            .try_acquire("a", 1)
            .is_ok(),
        limits
            .keyed("calls")
            .expect("there")
            .try_acquire("a|b", 1)
            .is_ok(),
    );
    let _held = (
        learned.try_acquire(1.into()).expect("granted"),
        shares.try_acquire("a", 1).expect("granted"),
    );
    check(7);
    // Other words are another gate, in which what was used stays used.
    let changes = replace(&limits, &file(8));
    assert_eq!(changes.replaced.len(), 6, "{changes:?}");
    let denied = slots.try_acquire(1.into()).expect_err("the slot is out");
    assert_eq!(denied.get("code"), Some(8.into()));
    let rate = limits.limiter("rate").expect("there");
    assert_eq!(
        rate.try_acquire(1.into()).expect_err("used").get("code"),
        Some(8.into())
    );
}
