//! Kinds of limits that only a file puts together: adaptive limits by key, queues for memory and processor time.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{ManualClock, Outcome, Reason};
use plimsoll_ambient::{CpuReading, MemoryReading, Sampler};
use plimsoll_config::{Changes, Config, Format, KeyedLimiter, Limits};

fn config(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"))
}

fn build(text: &str, time: &ManualClock) -> Limits {
    config(text).build(&time.clock()).expect("builds")
}

fn replace(limits: &Limits, text: &str) -> Changes {
    limits.replace(&config(text)).expect("builds")
}

fn now<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

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
    assert!(now(waiting.as_mut()).is_pending());
    drop(held);
    assert!(matches!(now(waiting.as_mut()), Poll::Ready(Ok(_))));

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
    assert!(now(first.as_mut()).is_pending() && now(second.as_mut()).is_pending());
    let full = heap.acquire(1.into());
    let mut full = pin!(full);
    let Poll::Ready(Err(denied)) = now(full.as_mut()) else {
        panic!("the bound holds");
    };
    assert_eq!(denied.reason(), Reason::QueueFull);

    // Another limit that is saturated too: who waits goes on waiting, in its queue.
    let changes = limits.replace(&file("900B")).expect("builds");
    assert_eq!(changes.replaced, ["heap"]);
    assert!(now(first.as_mut()).is_pending() && now(second.as_mut()).is_pending());
    assert_eq!(heap.snapshot().waiters(), 2);

    time.advance(Duration::from_secs(1));
    used.store(100, Ordering::Relaxed);
    sampler.sample().expect("measured");
    assert!(matches!(now(first.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(now(second.as_mut()), Poll::Ready(Ok(_))));
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
    assert!(now(both.as_mut()).is_pending());
    assert!(now(busy.as_mut()).is_pending() && now(basic.as_mut()).is_pending());
    sample(900);
    assert!(now(both.as_mut()).is_pending());
    sample(100);
    assert!(matches!(now(both.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(now(busy.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(now(basic.as_mut()), Poll::Ready(Ok(_))));

    // The time-out of the queue ends a wait that no sample does.
    sample(900);
    let mut late = pin!(alone.acquire(1.into()));
    assert!(now(late.as_mut()).is_pending());
    time.advance(Duration::from_secs(5) + Duration::from_nanos(1));
    let polled = now(late.as_mut());
    let Poll::Ready(Err(denied)) = polled else {
        panic!("it has waited long enough: {polled:?}");
    };
    assert_eq!(denied.reason(), Reason::TimedOut);
}

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
    assert!(now(live.as_mut()).is_pending());
    drop(all);
    let Poll::Ready(Ok(busy)) = now(live.as_mut()) else {
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

const PACKETS: &str = "policies: { lockout: 60s, max_soft_violations: 2 }
limits:
  packets:
    kind: policies
    handlers: { login: { rps: 0.5, burst: 1.5 }, search: { rps: 5, burst: 3 }, ping: { rps: 0 }, ban: { rps: 1, burst: -1 } }
    fallback: { rps: 1, burst: 2 }
    key: [descriptor:op, client]
";

#[test]
fn policies_of_a_file_decide_by_operation_and_caller() {
    let time = ManualClock::new();
    let limits = build(PACKETS, &time);
    let packets = limits.keyed("packets").expect("there");
    let ask = |key| {
        packets
            .try_acquire(key, 1)
            .map_err(|denied| (denied.reason(), denied.retry_after()))
    };
    let second = Some(Duration::from_secs(1));
    // A rate of 0.5 and a burst of 1.5 are rounded up to 1 and 2.
    assert!(ask("login|a").is_ok() && ask("login|a").is_ok());
    assert_eq!(
        ask("login|a").expect_err("refused"),
        (Reason::SoftThrottle, second)
    );
    assert!(ask("login|b").is_ok(), "another caller");
    assert!(ask("search|a").is_ok(), "another operation");
    // The second refusal in a row: the lockout of the section.
    let minute = Some(Duration::from_secs(60));
    assert_eq!(
        ask("login|a").expect_err("locked"),
        (Reason::LockedOut, minute)
    );
    // A rate at or below 0 is no limit, a burst at or below 0 a hard denial.
    assert!((0..1000).all(|_| ask("ping|a").is_ok()));
    assert_eq!(
        ask("ban|a").expect_err("refused"),
        (Reason::LockedOut, None)
    );
    // Operations without a policy share the fallback, for each caller.
    assert!(ask("move|a").is_ok() && ask("chat|a").is_ok());
    assert_eq!(ask("move|a").expect_err("refused").0, Reason::SoftThrottle);
    assert!(ask("move|b").is_ok());
}

#[test]
fn what_callers_have_used_of_policies_outlives_a_change() {
    let time = ManualClock::new();
    let limits = build(PACKETS, &time);
    let packets = limits.keyed("packets").expect("there");
    for key in ["login|a", "login|a", "move|a", "chat|a"] {
        assert!(packets.try_acquire(key, 1).is_ok());
    }
    let changes = replace(&limits, &PACKETS.replace("60s", "30s"));
    assert_eq!(
        changes.replaced,
        ["packets"],
        "a default of its settings has changed"
    );
    assert!(packets.try_acquire("login|a", 1).is_err());
    assert!(packets.try_acquire("move|a", 1).is_err());
    assert!(packets.try_acquire("login|b", 1).is_ok());
    let changes = replace(&limits, &PACKETS.replace("60s", "30s"));
    assert_eq!(changes.unchanged, ["packets"]);
}

#[test]
fn defaults_of_policies_come_from_the_file() {
    let text = "ipv6_prefix: 64
policies:
  fallback: { rps: 2, burst: 3 }
  max_soft_violations: 2
  soft_window: 10s
  lockout: 30s
  initial_tokens: 1
  subject_idle: 20s
  max_subjects: 2
  max_policies: 1
  policy_idle: 40s
  cleanup_interval: 1s
";
    let time = ManualClock::new();
    let policies = config(text).policies().clock(time.clock());
    let policies = policies
        .handler(1_u32, plimsoll_policy::Policy::per_second(1.0).burst(4.0))
        .handler(2_u32, plimsoll_policy::Policy::per_second(64.0).burst(4.0))
        .build()
        .expect("in range");
    let ask = |op: u32, peer: &str| {
        let peer: std::net::IpAddr = peer.parse().expect("an address");
        policies.evaluate(op, peer).expect("open")
    };
    // initial_tokens
    assert!(ask(1, "192.0.2.1").is_allowed());
    assert_eq!(ask(1, "192.0.2.1").reason(), Some(Reason::SoftThrottle));
    // max_soft_violations and soft_window and lockout
    time.advance(Duration::from_millis(500));
    assert_eq!(ask(1, "192.0.2.1").retry_after_ms(), 30_000);
    // ipv6_prefix, max_subjects: the third network has no room
    assert!(ask(1, "2001:db8::1").is_allowed());
    assert!(!ask(1, "2001:db8::2").is_allowed());
    assert_eq!(ask(1, "198.51.100.1").reason(), Some(Reason::LockedOut));
    // max_policies: another tier is served by the one that is there
    let _ = ask(2, "192.0.2.9");
    assert_eq!(policies.report().active_policies(), 1);
    // fallback
    let granted = (0..9).filter(|_| ask(3, "192.0.2.3").is_allowed()).count();
    assert_eq!(granted, 3);
    // policy_idle and cleanup_interval
    time.advance(Duration::from_secs(41));
    let _ = ask(3, "192.0.2.3");
    assert_eq!(policies.report().active_policies(), 0);
    // subject_idle: what began with few tokens is forgotten, so there is room
    assert!(ask(1, "198.51.100.1").is_allowed());
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
