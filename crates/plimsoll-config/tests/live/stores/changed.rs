//! Changed while they are used.

use plimsoll::Reason;
use plimsoll_config::{ChangeKind, FreshReason, StateOutcome};

use super::server::Server;
use super::{KINDS, build, described, granted, limiter, one};
use crate::files::replace;

#[tokio::test]
async fn another_limit_reads_what_is_kept_by_the_new_rule() {
    let server = Server::start();
    for (at, kind) in KINDS.into_iter().enumerate() {
        let text = |limit| {
            format!(
                "stores: {{ main: {{ {}, namespace: n{at} }} }}\nlimiters:\n  one: {}\n  keys: {}\n",
                described(&server),
                limiter(kind, limit, "store: main"),
                limiter(kind, limit, "store: main, keyed: true"),
            )
        };
        let limits = build(&text(10));
        let (limiter, keyed) = (one(&limits, "one"), limits.keyed("keys").expect("there"));
        let held = limiter.acquire(7.into()).await.expect("granted");
        let anna = keyed.acquire("anna", 7).await.expect("granted");

        let changes = replace(&limits, &text(9));
        assert_eq!(changes.changed, ["one", "keys"], "{kind}");
        assert_eq!(limiter.snapshot().limit(), 9, "{kind}: the same limiter");
        assert!(limiter.acquire(3.into()).await.is_err(), "{kind}");
        let more = limiter.acquire(2.into()).await;
        assert!(more.is_ok(), "{kind}: {more:?}");
        assert!(keyed.acquire("anna", 3).await.is_err(), "{kind}");
        assert!(keyed.acquire("anna", 2).await.is_ok(), "{kind}");
        assert_eq!(limiter.snapshot().granted_total(), 2, "{kind}");

        let changes = replace(&limits, &text(9));
        assert_eq!(changes.unchanged, ["one", "keys"], "{kind}");
        drop((held, more, anna));
    }
}

#[tokio::test]
async fn all_follows_its_members_and_is_closed_without_them() {
    let server = Server::start();
    let text = |limit, more: &str| {
        format!(
            "stores: {{ main: {{ {} }} }}\nlimiters:\n  a: {}\n  b: {{ kind: concurrency, limit: 5 }}\n{more}",
            described(&server),
            limiter(KINDS[4], limit, "store: main"),
        )
    };
    let inner = "  inner: { kind: all, of: [a] }\n";
    let outer = format!("{inner}  outer: {{ kind: all, of: [inner, b] }}\n");
    let limits = build(&text(3, &outer));
    let (inner_before, outer_before) = (one(&limits, "inner"), one(&limits, "outer"));
    assert!(outer_before.acquire(3.into()).await.is_ok());

    let changes = replace(&limits, &text(4, &outer));
    assert_eq!(changes.changed, ["a"]);
    assert_eq!(changes.unchanged, ["b", "inner", "outer"]);
    assert_eq!(outer_before.standing().limit, 4);
    let denied = outer_before.acquire(2.into()).await.expect_err("3 of 4");
    assert_eq!((denied.limiter(), denied.remaining()), (Some("a"), 1));

    let changes = replace(&limits, &text(4, inner));
    assert_eq!(changes.removed, ["outer"]);
    let closed = outer_before.acquire(1.into()).await.expect_err("closed");
    assert_eq!(closed.reason(), Reason::Closed);
    assert!(one(&limits, "b").try_acquire(5.into()).is_ok());
    let denied = inner_before.acquire(2.into()).await.expect_err("3 of 4");
    assert_eq!(denied.reason(), Reason::Exhausted, "not closed");
}

/// To the token: a process that borrowed leaves as many as one that asked the store each time.
#[tokio::test]
async fn what_was_borrowed_goes_back_when_the_limit_changes() {
    let server = Server::start();
    for style in ["greedy", "interval"] {
        let kind = format!("token_bucket, refill: 1, every: 10000d, style: {style}, burst: ");
        let text = |burst, more| {
            let limiter = limiter(&kind, burst, more);
            let store = described(&server);
            format!(
                "stores: {{ main: {{ {store}, namespace: {style} }} }}\nlimiters: {{ a: {limiter} }}\n"
            )
        };
        let limits = build(&text(21, "store: main, borrow: { max: 10, keep: 1h }"));
        let other = build(&text(20, "store: main"));
        let limiter = one(&limits, "a");
        for _ in 0..6 {
            assert!(limiter.acquire(1.into()).await.is_ok());
        }
        assert_eq!(replace(&limits, &text(20, "store: main")).changed, ["a"]);
        // Of the 20 that there are now, 6 are used.
        for _ in 0..14 {
            granted(&one(&other, "a")).await;
        }
        let other = one(&other, "a");
        assert!(other.acquire(1.into()).await.is_err(), "{style}");
    }
}

#[tokio::test]
async fn a_store_elsewhere_is_another_one() {
    let server = Server::start();
    let text = |store: &str, more: &str| {
        format!(
            "stores: {{ main: {{ {}{store} }} }}\nlimiters:\n  a: {}\n",
            described(&server),
            limiter(KINDS[4], 2, more),
        )
    };
    let limits = build(&text("", "store: main"));
    let before = one(&limits, "a");
    assert!(before.acquire(2.into()).await.is_ok());

    // The same place with another deadline.
    let patient = text("", "store: main").replace("20s", "30s");
    assert_eq!(replace(&limits, &patient).changed, ["a"]);
    assert!(before.acquire(1.into()).await.is_err());
    assert_eq!(
        replace(&limits, &text("", "store: main, outage: admit")).changed,
        ["a"]
    );

    let changes = replace(&limits, &text(", namespace: other", "store: main"));
    assert_eq!(changes.replaced, ["a"]);
    // Whoever holds the name asks the other place from now on.
    assert!(before.acquire(1.into()).await.is_ok());
    assert!(one(&limits, "a").acquire(1.into()).await.is_ok());
    assert!(before.acquire(1.into()).await.is_err());

    let changes = replace(&limits, &text("", ""));
    assert_eq!(changes.replaced, ["a"], "into memory");
    assert!(before.try_acquire(1.into()).is_ok());
    assert!(one(&limits, "a").try_acquire(1.into()).is_ok());
    let changes = replace(&limits, &text("", "store: main"));
    assert_eq!(changes.replaced, ["a"], "and back");
    let kept = one(&limits, "a").acquire_owned(1.into()).await;
    assert!(kept.is_err(), "what is in the store stayed there");

    let changes = replace(&limits, "limiters: {}");
    assert_eq!(changes.removed, ["a"]);
}

#[tokio::test]
async fn a_change_in_a_store_is_told_with_what_is_kept() {
    let server = Server::start();
    for (at, kind) in KINDS.into_iter().enumerate() {
        let text = |limit, more: &str| {
            format!(
                "stores: {{ main: {{ {}, namespace: m{at} }} }}\nlimiters:\n  one: {}\n  keys: {}\n",
                described(&server),
                limiter(kind, limit, &format!("store: main{more}")),
                limiter(kind, limit, &format!("store: main, keyed: true{more}")),
            )
        };
        let limits = build(&text(10, ""));
        let (limiter, keyed) = (one(&limits, "one"), limits.keyed("keys").expect("there"));
        let held = limiter.acquire(9.into()).await.expect("granted");
        let anna = keyed.acquire("anna", 9).await.expect("granted");
        for (limit, more) in [(11, ""), (11, ", outage: admit")] {
            let changes = replace(&limits, &text(limit, more));
            for change in &changes.details {
                assert_eq!(
                    (change.kind, change.state, change.in_use),
                    (ChangeKind::Changed, StateOutcome::Preserved, None),
                    "{change}"
                );
            }
            assert_eq!(changes.details.len(), 2, "{changes}");
        }
        assert!(limiter.acquire(3.into()).await.is_err(), "{kind}");
        assert!(keyed.acquire("anna", 3).await.is_err(), "{kind}");
        // Into the memory of this process: what the store knows stays there.
        let moved = text(11, "").replace("store: main", "name: other");
        let moved = moved
            .replace("name: other, keyed", "keyed")
            .replace("name: other", "");
        let changes = replace(&limits, &moved);
        let fresh = StateOutcome::Fresh(FreshReason::OtherPlace);
        assert!(
            changes.details.iter().all(|it| it.state == fresh),
            "{changes}"
        );
        drop((held, anna));
    }
}
