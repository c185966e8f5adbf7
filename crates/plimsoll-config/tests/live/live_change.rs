//! A new configuration takes the place of the old one while limits are used.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use plimsoll::{ManualClock, Reason};

use crate::files::{build, config, poll, replace};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_did_not_change_keeps_its_state_and_its_waiters() {
    let time = ManualClock::new();
    let same =
        "  api: { kind: token_bucket, burst: 1, refill: 1, every: 1s, queue: { bound: 5 } }\n";
    let limits = build(
        &format!("limiters:\n{same}  other: {{ kind: concurrency, limit: 1 }}\n"),
        &time,
    );
    let before = limits.limiter("api").expect("there");
    assert!(before.try_acquire(1.into()).is_ok());
    let mut waiting = pin!(before.acquire(1.into()));
    assert!(poll(waiting.as_mut()).is_pending());

    let changes = replace(
        &limits,
        &format!("limiters:\n{same}  more: {{ kind: concurrency, limit: 1 }}\n"),
    );
    assert_eq!(changes.unchanged, ["api"]);
    assert_eq!(changes.added, ["more"]);
    assert_eq!(changes.removed, ["other"]);

    let after = limits.limiter("api").expect("there");
    assert!(Arc::ptr_eq(before.shared(), after.shared()));
    assert_eq!(after.snapshot().waiters(), 1);
    time.advance(SECOND);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok(_))));
}

#[test]
fn defaults_that_are_said_or_not_are_the_same() {
    let time = ManualClock::new();
    let limits = build(
        "limiters: { a: { kind: token_bucket, burst: 5, refill: 1, every: 1s } }",
        &time,
    );
    let changes = replace(
        &limits,
        "limiters: { a: { kind: token_bucket, burst: 5, refill: 1, every: 1000ms, style: greedy, initial: 5, keyed: false } }",
    );
    assert_eq!(changes.unchanged, ["a"]);
}

#[test]
fn what_was_used_of_a_bucket_stays_used_and_who_waits_is_served() {
    let time = ManualClock::new();
    let text = |burst, refill| {
        format!(
            "limiters: {{ a: {{ kind: token_bucket, burst: {burst}, refill: {refill}, every: 1s, style: greedy, queue: {{ bound: 20 }} }} }}"
        )
    };
    let limits = build(&text(10, 1), &time);
    let bucket = limits.limiter("a").expect("there");
    assert!(bucket.try_acquire(7.into()).is_ok());
    let changes = replace(&limits, &text(20, 10));
    assert_eq!(changes.changed, ["a"]);
    assert_eq!(bucket.snapshot().available(), 13, "7 were used");
    assert_eq!(bucket.snapshot().limit(), 20);
    // It used to keep its tokens, so that 7 used of 10 became 2 used of 5.
    replace(&limits, &text(5, 1));
    assert_eq!(bucket.snapshot().available(), 0, "7 were used");
    replace(&limits, &text(10, 1));
    assert_eq!(
        bucket.snapshot().available(),
        3,
        "as if nothing had happened"
    );
    replace(&limits, &text(20, 10));
    assert!(bucket.try_acquire(10.into()).is_ok());

    let mut waiting = pin!(bucket.acquire(13.into()));
    assert!(poll(waiting.as_mut()).is_pending());
    let changes = replace(&limits, &text(20, 1000));
    assert_eq!(changes.changed, ["a"]);
    time.advance(Duration::from_millis(10));
    assert!(
        matches!(poll(waiting.as_mut()), Poll::Ready(Ok(_))),
        "by the new rate"
    );
}

#[test]
fn a_window_carries_over_what_was_used() {
    for kind in [
        "fixed_window, window: 1m",
        "sliding_window, window: 1m, segments: 6",
        "sliding_log, window: 1m",
        "sliding_counter, window: 1m",
        "refresh, period: 1m",
    ] {
        let time = ManualClock::new();
        let text = |limit| format!("limiters: {{ a: {{ kind: {kind}, limit: {limit} }} }}");
        let limits = build(&text(10), &time);
        let window = limits.limiter("a").expect("there");
        assert!(window.try_acquire(7.into()).is_ok());
        let changes = replace(&limits, &text(9));
        assert_eq!(changes.changed, ["a"], "{kind}");
        assert_eq!(window.snapshot().available(), 2, "{kind}");
        replace(&limits, &text(5));
        assert_eq!(window.snapshot().available(), 0, "{kind}");
    }
}

#[test]
fn slots_are_resized_with_permits_out_and_waiters_in() {
    let time = ManualClock::new();
    let text = |limit, bound| {
        format!(
            "limiters: {{ a: {{ kind: concurrency, limit: {limit}, queue: {{ bound: {bound} }} }} }}"
        )
    };
    let limits = build(&text(1, 1), &time);
    let slots = limits.limiter("a").expect("there");
    let held = slots.try_acquire(1.into()).expect("granted");
    let mut waiting = pin!(slots.acquire(1.into()));
    assert!(poll(waiting.as_mut()).is_pending());

    let changes = replace(&limits, &text(2, 7));
    assert_eq!(changes.changed, ["a"]);
    let Poll::Ready(Ok(served)) = poll(waiting.as_mut()) else {
        panic!("not served");
    };
    assert_eq!(
        (slots.snapshot().in_use(), slots.snapshot().queue_bound()),
        (2, 7)
    );
    drop((held, served));
    assert_eq!(
        slots.snapshot().in_use(),
        0,
        "what was out comes back to the same limiter"
    );
}

#[test]
fn keys_carry_over_what_they_used() {
    let time = ManualClock::new();
    let text = |burst| {
        format!(
            "limiters: {{ u: {{ kind: token_bucket, burst: {burst}, refill: 1, every: 1m, style: greedy, keyed: true }} }}"
        )
    };
    let limits = build(&text(5), &time);
    let users = limits.keyed("u").expect("there");
    assert!(users.try_acquire("anna", 4).is_ok());
    assert_eq!(replace(&limits, &text(50)).changed, ["u"]);
    assert!(users.try_acquire("anna", 47).is_err());
    assert!(users.try_acquire("anna", 46).is_ok());
    assert!(users.try_acquire("bert", 50).is_ok());
    replace(&limits, &text(5));
    assert!(users.try_acquire("anna", 1).is_err());
}

#[test]
fn keys_carry_over_what_they_used_of_a_window() {
    let time = ManualClock::new();
    let text = |limit| {
        format!(
            "limiters: {{ u: {{ kind: fixed_window, limit: {limit}, window: 1m, keyed: true }} }}"
        )
    };
    let limits = build(&text(5), &time);
    let users = limits.keyed("u").expect("there");
    assert!(users.try_acquire("anna", 4).is_ok() && users.try_acquire("bert", 1).is_ok());
    assert_eq!(replace(&limits, &text(3)).changed, ["u"]);
    assert!(users.try_acquire("anna", 1).is_err());
    assert!(users.try_acquire("bert", 2).is_ok());
    assert!(users.try_acquire("bert", 1).is_err());
}

#[test]
fn another_kind_stands_behind_the_same_name() {
    let time = ManualClock::new();
    let limits = build(
        "limiters: { a: { kind: fixed_window, limit: 10, window: 1m } }",
        &time,
    );
    let held = limits.limiter("a").expect("there");
    assert!(held.try_acquire(4.into()).is_ok());
    let changes = replace(
        &limits,
        "limiters: { a: { kind: sliding_log, limit: 10, window: 1m } }",
    );
    assert_eq!(changes.replaced, ["a"]);
    assert_eq!(held.snapshot().available(), 6, "it does not start full");
    assert!(held.try_acquire(6.into()).is_ok());
    let denied = held.try_acquire(1.into()).expect_err("used up");
    assert_eq!(denied.reason(), Reason::Exhausted);
}

#[test]
fn another_queue_is_no_other_limiter() {
    let time = ManualClock::new();
    let limits = build(
        "limiters: { a: { kind: token_bucket, burst: 10, refill: 1, every: 1s } }",
        &time,
    );
    assert!(
        limits
            .limiter("a")
            .expect("there")
            .try_acquire(9.into())
            .is_ok()
    );
    let text = "limiters: { a: { kind: token_bucket, burst: 10, refill: 1, every: 1s, queue: { bound: 3 } } }";
    let bucket = limits.limiter("a").expect("there");
    assert_eq!(replace(&limits, text).changed, ["a"]);
    assert_eq!(
        (
            bucket.snapshot().available(),
            bucket.snapshot().queue_bound()
        ),
        (1, 3)
    );
}

#[test]
fn an_algorithm_goes_on_from_the_limit_that_was_found() {
    let time = ManualClock::new();
    let limits = build(
        "limiters: { a: { kind: adaptive, algorithm: verdict, initial: 50 } }",
        &time,
    );
    let changes = replace(
        &limits,
        "limiters: { a: { kind: adaptive, algorithm: vegas, initial: 10, max: 40 } }",
    );
    assert_eq!(changes.replaced, ["a"]);
    assert_eq!(limits.limiter("a").expect("there").snapshot().limit(), 40);
}

#[test]
fn a_bad_file_changes_nothing() {
    let time = ManualClock::new();
    let limits = build("limiters: { a: { kind: concurrency, limit: 1 } }", &time);
    let before = limits.current();
    let dir = std::env::temp_dir().join(format!("plimsoll-config-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let file = dir.join("limits.yaml");
    std::fs::write(
        &file,
        "limiters: { a: { kind: concurrency, limit: 0 }, b: { kind: concurrency, limit: 1 } }",
    )
    .expect("written");
    let error = limits.replace_file(&file).expect_err("wrong");
    assert_eq!(
        (error.line(), error.field()),
        (Some(1), Some("limiters.a.limit"))
    );
    assert!(Arc::ptr_eq(&before, &limits.current()));
    std::fs::write(&file, "limiters: { a: { kind: concurrency, limit: 2 } }").expect("written");
    assert_eq!(limits.replace_file(&file).expect("right").changed, ["a"]);
    let _ = std::fs::remove_dir_all(&dir);
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_built_changes_nothing_and_is_named() {
    let time = ManualClock::new();
    let limits = build("limiters: { a: { kind: concurrency, limit: 1 } }", &time);
    let before = limits.current();
    let error = limits
        .replace(&config("limiters:\n  a: { kind: concurrency, limit: 5 }\n  m: { kind: memory, hard_limit: 1MiB, spike: 2MiB }\n"))
        .expect_err("the spike leaves nothing");
    assert!(
        error
            .to_string()
            .starts_with("limits.yaml:3:3: limiters.m: "),
        "{error}"
    );
    assert!(Arc::ptr_eq(&before, &limits.current()));
    assert_eq!(limits.limiter("a").expect("there").snapshot().limit(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_a_limit_like_others() {
    let time = ManualClock::new();
    let limits = build(
        "limiters:\n  tiny: { kind: memory, hard_limit: 4KiB }\n  large: { kind: memory, hard_limit: 100%, spike: 0% }\nproviders: { p: { basic: [tiny, large] } }\n",
        &time,
    );
    let denied = limits
        .provider("p")
        .expect("there")
        .check_saturation()
        .expect_err("full");
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::Saturated, Some("tiny"))
    );
}

#[test]
fn readers_see_the_old_or_the_new_whole() {
    let text = |generation: u32| {
        // Both names and the route belong to one generation.
        format!(
            "limiters:\n  l{generation}: {{ kind: concurrency, limit: {limit} }}\n  steady: {{ kind: concurrency, limit: 1000 }}\nroutes: [{{ match: /g{generation}, middleware: [l{generation}, steady] }}]\n",
            limit = generation + 1
        )
    };
    let time = ManualClock::new();
    let limits = build(&text(0), &time);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) {
                    let set = limits.current();
                    let name = set
                        .config()
                        .limiters()
                        .next()
                        .expect("a limiter")
                        .to_owned();
                    let generation: u64 = name[1..].parse().expect("a number");
                    assert!(generation >= seen, "never back to an old one");
                    seen = generation;
                    assert!(set.get(&name).is_some());
                    assert!(set.route(&format!("/g{generation}")).is_some());
                    assert!(set.get(&format!("l{}", generation + 1)).is_none());
                    let steady = limits.limiter("steady").expect("there");
                    assert!(steady.try_acquire(1.into()).is_ok(), "kept all the time");
                }
            });
        }
        for generation in 1..200 {
            let changes = replace(&limits, &text(generation));
            // Another route asks it.
            assert_eq!(changes.changed, ["steady"]);
        }
        done.store(true, Ordering::Relaxed);
    });
}
