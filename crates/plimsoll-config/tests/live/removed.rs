//! What a new configuration no longer has is closed, and what comes back is open.

use std::pin::pin;
use std::task::Poll;

use plimsoll::{ManualClock, Reason};

use crate::files::{build, poll, replace};

#[test]
fn what_is_removed_is_closed_with_its_waiters() {
    let time = ManualClock::new();
    let limits = build(
        "limiters:
  a: { kind: concurrency, limit: 1, queue: { bound: 1 } }
  u: { kind: token_bucket, burst: 1, refill: 1, every: 1h, keyed: true, queue: { bound: 1 } }
",
        &time,
    );
    let (slots, users) = (
        limits.limiter("a").expect("there"),
        limits.keyed("u").expect("there"),
    );
    let _held = slots.try_acquire(1.into()).expect("granted");
    let mut waiting = pin!(slots.acquire(1.into()));
    assert!(poll(waiting.as_mut()).is_pending());
    assert!(users.try_acquire("anna", 1).is_ok());
    let mut anna = pin!(users.acquire("anna", 1));
    assert!(poll(anna.as_mut()).is_pending());

    let changes = replace(&limits, "limiters: {}");
    assert_eq!(changes.removed, ["a", "u"]);
    assert!(limits.limiter("a").is_none());
    let Poll::Ready(Err(denied)) = poll(waiting.as_mut()) else {
        panic!("still waits");
    };
    assert_eq!(denied.reason(), Reason::Closed);
    let Poll::Ready(Err(denied)) = poll(anna.as_mut()) else {
        panic!("still waits");
    };
    assert_eq!(denied.reason(), Reason::Closed);
    assert_eq!(
        users.try_acquire("bert", 1).expect_err("closed").reason(),
        Reason::Closed
    );
}

/// The `all` was reached before its members were reopened: requests in between were refused as closed.
#[test]
fn all_that_comes_back_finds_its_members_open() {
    let time = ManualClock::new();
    let all = "limiters: { api: { kind: all, of: [
        { kind: concurrency, limit: 2 }, { kind: fixed_window, limit: 5, window: 1s }] } }";
    let limits = build(all, &time);
    let api = limits.limiter("api").expect("there");
    // The window counts it, so that the member is not forgotten.
    drop(api.try_acquire(1.into()).expect("granted"));
    let one = "limiters: { api: { kind: concurrency, limit: 1, queue: { bound: 1 } } }";
    replace(&limits, one);
    let _held = api.try_acquire(1.into()).expect("granted");
    let mut waiting = pin!(api.acquire(1.into()));
    assert!(poll(waiting.as_mut()).is_pending());

    replace(&limits, all);
    let Poll::Ready(answer) = poll(waiting.as_mut()) else {
        panic!("still waits");
    };
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
fn all_is_closed_without_its_members_and_follows_them() {
    let time = ManualClock::new();
    let members =
        "  a: { kind: concurrency, limit: 2 }\n  b: { kind: fixed_window, limit: 5, window: 1s }\n";
    let limits = build(
        &format!("limiters:\n{members}  both: {{ kind: all, of: [a, b] }}\n"),
        &time,
    );
    let both = limits.limiter("both").expect("there");
    assert!(both.try_acquire(1.into()).is_ok());

    // A member that changed is the same limiter, so its `all` is too.
    let larger = members.replace("limit: 5", "limit: 9");
    let changes = replace(
        &limits,
        &format!("limiters:\n{larger}  both: {{ kind: all, of: [a, b] }}\n"),
    );
    assert_eq!(
        (changes.unchanged, changes.changed),
        (
            vec!["a".to_owned(), "both".to_owned()],
            vec!["b".to_owned()]
        )
    );
    assert_eq!(
        limits.limiter("b").expect("there").snapshot().available(),
        8
    );

    // Behind the name of a member there may be another limiter: the `all` asks names.
    let other = members.replace("fixed_window", "sliding_log");
    let changes = replace(
        &limits,
        &format!("limiters:\n{other}  both: {{ kind: all, of: [a, b] }}\n"),
    );
    assert_eq!(
        (changes.unchanged, changes.replaced),
        (
            vec!["a".to_owned(), "both".to_owned()],
            vec!["b".to_owned()]
        )
    );
    assert!(both.try_acquire(1.into()).is_ok());

    let changes = replace(&limits, &format!("limiters:\n{other}"));
    assert_eq!(changes.removed, ["both"]);
    let denied = both.try_acquire(1.into()).expect_err("closed");
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::Closed, Some("both"))
    );
    assert!(
        limits
            .limiter("a")
            .expect("there")
            .try_acquire(2.into())
            .is_ok(),
        "nothing was taken"
    );
}
