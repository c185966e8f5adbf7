//! Several limiters as one, through changes of its members and of the list; and whoever waits for several.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::together::{Ask, Key, Waiting};
use plimsoll::{Concurrency, Demand, Gate, ManualClock, PerKey, Permit, Reason};
use plimsoll_config::KeyedLimiter;

use super::{ADAPTIVE, QUEUED, RATES, SLOTS, file, held, held_keyed};
use crate::files::{build, poll, replace};

#[test]
fn several_as_one_follow_their_members_through_changes_of_kind() {
    let time = ManualClock::new();
    let text = |a: &str| {
        format!(
            "limiters:\n  a: {{ {a} }}\n  b: {{ kind: fixed_window, limit: 100, window: 1h }}\n  both: {{ kind: all, of: [a, b] }}\n"
        )
    };
    let limits = build(&text("kind: concurrency, limit: 3"), &time);
    let (a, both) = (held(&limits), limits.limiter("both").expect("there"));
    let mut out: Vec<_> = (0..3)
        .map(|_| both.try_acquire(1.into()).expect("room"))
        .collect();
    replace(
        &limits,
        &text("kind: adaptive, algorithm: aimd, min: 3, initial: 3, max: 3"),
    );
    assert_eq!(a.snapshot().in_use(), 3, "what is out through `all` counts");
    assert!(both.try_acquire(1.into()).is_err());
    drop(out.pop());
    assert_eq!(a.snapshot().in_use(), 2);
    out.push(both.try_acquire(1.into()).expect("room"));
    assert!(both.try_acquire(1.into()).is_err());
    drop(out);
    assert_eq!(a.snapshot().in_use(), 0);
    // A rate, of which nothing comes back.
    replace(&limits, &text("kind: fixed_window, limit: 2, window: 1h"));
    let permits = [both.try_acquire(1.into()), both.try_acquire(1.into())];
    assert!(permits.iter().all(Result::is_ok));
    replace(&limits, &text("kind: concurrency, limit: 2"));
    time.advance(Duration::from_nanos(1));
    let slot = both.try_acquire(1.into()).expect("room");
    drop((permits, slot));
    assert_eq!(a.snapshot().in_use(), 0);
}

/// What a rate granted is refunded to the rate, although permits are returned to what took its place: they are others'.
#[test]
fn undoing_what_a_former_member_granted_takes_nothing_from_the_present_one() {
    let text = |a: &str| {
        format!(
            "limiters:\n  a: {{ {a} }}\n  b: {{ kind: concurrency, limit: 10 }}\n  both: {{ kind: all, of: [a, b] }}\n"
        )
    };
    for undone in [true, false] {
        let time = ManualClock::new();
        let limits = build(&text(RATES[0]), &time);
        let both = limits.limiter("both").expect("there");
        both.try_acquire(1.into()).expect("granted").undo();
        assert_eq!(held(&limits).snapshot().in_use(), 0, "refunded");
        let first = both.try_acquire(1.into()).expect("granted by a rate");
        replace(&limits, &text(SLOTS[0]));
        let second = both.try_acquire(1.into()).expect("granted by slots");
        if undone {
            first.undo();
        } else {
            drop(first);
        }
        assert_eq!(held(&limits).snapshot().in_use(), 1);
        drop(second);
        assert_eq!(held(&limits).snapshot().in_use(), 0);
    }
}

#[test]
fn who_waits_for_several_is_served_when_a_member_or_the_list_changes() {
    let edits = [
        "a: { kind: adaptive, algorithm: aimd, min: 1, initial: 1, max: 1 }\n  b: { kind: fixed_window, limit: 100, window: 1h }\n  both: { kind: all, of: [a, b] }\n",
        "a: { kind: concurrency, limit: 1 }\n  b: { kind: fixed_window, limit: 100, window: 1h }\n  both: { kind: all, of: [b, a] }\n",
        "a: { kind: concurrency, limit: 1 }\n  both: { kind: all, of: [a] }\n",
        "b: { kind: fixed_window, limit: 100, window: 1h }\n  both: { kind: all, of: [b] }\n",
        "a: { kind: concurrency, limit: 1 }\n  both: { kind: concurrency, limit: 5 }\n",
    ];
    for edit in edits {
        let time = ManualClock::new();
        let limits = build(
            "limiters:\n  a: { kind: concurrency, limit: 1, queue: { bound: 5 } }\n  b: { kind: fixed_window, limit: 100, window: 1h }\n  both: { kind: all, of: [a, b] }\n",
            &time,
        );
        let both = limits.limiter("both").expect("there");
        let out = both.try_acquire(1.into()).expect("room");
        let mut waiting = pin!(both.acquire(1.into()));
        assert!(poll(waiting.as_mut()).is_pending());
        replace(&limits, &format!("limiters:\n  {edit}"));
        drop(out);
        let answer = poll(waiting.as_mut());
        assert!(matches!(answer, Poll::Ready(Ok(_))), "{edit}: {answer:?}");
    }
}

/// Two waiters in the list `a`, `b`: what each of them is made of.
fn both(a: &str, b: &str) -> String {
    format!(
        "limiters:\n  a: {{ {a} }}\n  b: {{ {b} }}\n  both: {{ kind: all, of: [a, b] }}\n  outer: {{ kind: all, of: [both] }}\n"
    )
}

/// Seen to fail: the waiter left the queue of `a`, found that nobody waits for `b` any more, and was refused.
#[test]
fn who_waits_for_several_is_not_lost_when_a_member_it_has_not_come_to_loses_its_queue() {
    for name in ["both", "outer"] {
        for (a, b) in [
            (QUEUED, "kind: concurrency, limit: 1"),
            (QUEUED, ADAPTIVE),
            ("kind: concurrency, limit: 1", ADAPTIVE),
        ] {
            let time = ManualClock::new();
            let limits = build(&both(QUEUED, QUEUED), &time);
            let one = |name| limits.limiter(name).expect("there");
            let (of_a, of_b, all) = (one("a"), one("b"), one(name));
            let (held_a, held_b) = (of_a.try_acquire(1.into()), of_b.try_acquire(1.into()));
            let mut waiting = pin!(all.acquire(1.into()));
            assert!(poll(waiting.as_mut()).is_pending());
            replace(&limits, &both(a, b));
            drop(held_a);
            let answer = poll(waiting.as_mut());
            assert!(answer.is_pending(), "{name}: {a} and {b}: {answer:?}");
            drop(held_b);
            let answer = poll(waiting.as_mut());
            assert!(
                matches!(answer, Poll::Ready(Ok(_))),
                "{name}: {a} and {b}: {answer:?}"
            );
            drop(answer);
            for limiter in [of_a, of_b] {
                assert_eq!(limiter.snapshot().in_use(), 0);
            }
        }
    }
}

/// Seen to fail: members of `all` in a file were waited for one after the other, and whoever waited for both gave `a` to the
/// next when `b` refused.
#[test]
fn who_waits_for_several_keeps_its_place_at_each_member() {
    let time = ManualClock::new();
    let limits = build(&both(QUEUED, QUEUED), &time);
    let one = |name| limits.limiter(name).expect("there");
    let (of_a, of_b, all) = (one("a"), one("b"), one("both"));
    let (held_a, held_b) = (of_a.try_acquire(1.into()), of_b.try_acquire(1.into()));
    let mut older = pin!(all.acquire(1.into()));
    assert!(poll(older.as_mut()).is_pending());
    let mut younger = pin!(of_a.acquire(1.into()));
    assert!(poll(younger.as_mut()).is_pending());
    drop(held_a);
    assert!(poll(older.as_mut()).is_pending());
    assert!(
        poll(younger.as_mut()).is_pending(),
        "`a` is kept for the older"
    );
    drop(held_b);
    let answer = poll(older.as_mut());
    assert!(matches!(answer, Poll::Ready(Ok(_))), "{answer:?}");
    assert!(poll(younger.as_mut()).is_pending());
    drop(answer);
    assert!(matches!(poll(younger.as_mut()), Poll::Ready(Ok(_))));
}

/// A request that waits for a key and for a limiter, as one of an HTTP layer does.
struct ForTwo<'a> {
    key: Key<'a, KeyedLimiter, str>,
    other: &'a Gate<Concurrency>,
    waiting: Option<Waiting>,
}

impl<'a> ForTwo<'a> {
    fn new(keyed: &'a KeyedLimiter, other: &'a Gate<Concurrency>) -> Self {
        let key = Key::new(keyed, "k");
        let (demand, waiting) = (Demand::ONE, None);
        let mut new = Self {
            key,
            other,
            waiting,
        };
        let asks = [Ask::key(&new.key, demand), Ask::limiter(other, demand)];
        new.waiting = Some(Waiting::start(&asks).expect("it may wait"));
        new
    }

    fn poll(&mut self) -> Poll<Result<Vec<Permit<'static>>, Reason>> {
        let asks = [Ask::key(&self.key, 1), Ask::limiter(self.other, 1)];
        let waiting = self.waiting.as_mut().expect("waits");
        let answer = waiting.poll(&asks, &mut Context::from_waker(Waker::noop()));
        answer
            .map_ok(|permits| permits.into_iter().flatten().collect())
            .map_err(|refused| refused.denied.reason())
    }
}

/// Seen to fail: the third was refused as `QueueFull`, and all three where the new limit has no queue.
#[test]
fn who_waits_for_a_key_and_more_keeps_its_place_whatever_the_bound_of_the_new_queue() {
    let from = "kind: concurrency, limit: 1, keyed: true, queue: { bound: 5 }";
    for to in [
        "kind: token_bucket, burst: 1, refill: 1, every: 1m, keyed: true, queue: { bound: 1 }",
        "kind: token_bucket, burst: 1, refill: 1, every: 1m, keyed: true, queue: { bound: 1, timeout: 1ms }",
        "kind: token_bucket, burst: 1, refill: 1, every: 1m, keyed: true",
        "kind: fixed_window, limit: 1, window: 1m, queue: { bound: 1 }",
        "kind: fixed_window, limit: 1, window: 1m",
        "kind: all, of: [other, { kind: fixed_window, limit: 1, window: 1m }]",
    ] {
        let time = ManualClock::new();
        let limits = build(&file(from), &time);
        let a = held_keyed(&limits);
        let other = Gate::builder(Concurrency::new(9)).clock(time.clock());
        let other = other.build();
        let out = a.try_acquire("k", 1).expect("room");
        let mut waiting: Vec<_> = (0..3).map(|_| ForTwo::new(&a, &other)).collect();
        waiting
            .iter_mut()
            .for_each(|it| assert!(it.poll().is_pending()));
        replace(&limits, &file(to));
        drop(out);
        // One who comes later, and is asked for first.
        let mut later = PerKey::acquire_owned(&a, "k", Demand::ONE);
        let later = poll(Pin::new(&mut later));
        let taken = usize::from(matches!(later, Poll::Ready(Ok(_))));
        let mut order = Vec::new();
        for _ in 0..10 {
            for (at, one) in waiting.iter_mut().enumerate() {
                if order.contains(&at) {
                    continue;
                }
                match one.poll() {
                    Poll::Pending => {}
                    Poll::Ready(Ok(permits)) => {
                        assert_eq!(permits.len(), 2);
                        order.push(at);
                    }
                    Poll::Ready(Err(reason)) => panic!("{to}: {reason:?}"),
                }
            }
            time.advance(Duration::from_secs(60));
        }
        assert_eq!(order, [0, 1, 2], "{to}");
        assert_eq!(other.snapshot().in_use(), 0);
        assert!(taken <= 1);
    }
}

/// Seen to fail: a name without keys was waited for in its own way, so the place was given up when the other limiter refused.
#[test]
fn who_waits_for_a_name_that_lost_its_keys_keeps_its_place_there() {
    let time = ManualClock::new();
    let keyed = "kind: concurrency, limit: 1, keyed: true, queue: { bound: 5 }";
    let limits = build(&file(keyed), &time);
    let a = held_keyed(&limits);
    replace(&limits, &file(QUEUED));
    let other = Gate::builder(Concurrency::new(1)).clock(time.clock());
    let other = other.queue(plimsoll::Queue::fifo(5)).build();
    let (held_a, held_other) = (a.try_acquire("k", 1), other.try_acquire(1));
    let mut older = ForTwo::new(&a, &other);
    assert!(older.poll().is_pending());
    let mut younger = pin!(a.acquire("j", 1));
    assert!(poll(younger.as_mut()).is_pending());
    drop(held_a);
    assert!(older.poll().is_pending());
    assert!(
        poll(younger.as_mut()).is_pending(),
        "`a` is kept for the older"
    );
    drop(held_other);
    let Poll::Ready(Ok(permits)) = older.poll() else {
        panic!("both have room");
    };
    assert!(poll(younger.as_mut()).is_pending());
    drop(permits);
    assert!(matches!(poll(younger.as_mut()), Poll::Ready(Ok(_))));
}
