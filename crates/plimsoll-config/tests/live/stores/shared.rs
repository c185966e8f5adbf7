//! Shared by processes with one file.

use plimsoll::{Clock, Denied, Reason};
use plimsoll_kinds::LimiterKind;

use super::server::Server;
use super::{KINDS, build, described, granted, limiter, one};
use crate::files::config;

#[tokio::test]
async fn two_processes_with_one_file_share_every_kind_of_limit() {
    let server = Server::start();
    for (at, kind) in KINDS.into_iter().enumerate() {
        let text = format!(
            "stores: {{ main: {{ {}, namespace: n{at} }} }}\nlimiters:\n  one: {}\n  keys: {}\n",
            described(&server),
            limiter(kind, 3, "store: main"),
            limiter(kind, 3, "store: main, keyed: true"),
        );
        let (a, b) = (build(&text), build(&text));
        let resource = kind.starts_with("concurrency");
        let expected = if resource {
            LimiterKind::Resource
        } else {
            LimiterKind::Rate
        };
        assert_eq!(one(&a, "one").kind(), expected, "{kind}");
        assert_eq!(a.keyed("keys").expect("there").kind(), expected, "{kind}");

        let (first, second) = (one(&a, "one"), one(&b, "one"));
        let held = first.acquire(2.into()).await.expect("granted");
        let more = second.acquire(1.into()).await.expect("granted");
        let denied = second.acquire(1.into()).await.expect_err("used up");
        assert_eq!(
            (denied.reason(), denied.limiter()),
            (Reason::Exhausted, Some("one")),
            "{kind}"
        );
        assert_eq!(second.snapshot().limit(), 3, "{kind}");
        assert_eq!(second.snapshot().granted_total(), 1, "{kind}");
        assert_eq!(second.snapshot().denied_total(), 1, "{kind}");

        let (first, second) = (
            a.keyed("keys").expect("there"),
            b.keyed("keys").expect("there"),
        );
        let anna = first.acquire("anna", 3).await.expect("granted");
        assert!(second.acquire("anna", 1).await.is_err(), "{kind}");
        assert!(second.acquire("bert", 3).await.is_ok(), "{kind}");
        assert_eq!(second.snapshot().granted_total(), 1, "{kind}");
        assert!(second.snapshot_of("anna").is_none(), "only the store knows");
        drop((held, more, anna));
    }
}

#[tokio::test]
async fn who_cannot_ask_is_told_that_nothing_is_known() {
    let server = Server::start();
    let limits = build(&format!(
        "stores: {{ main: {{ {} }} }}\nlimiters: {{ a: {} }}\n",
        described(&server),
        limiter(KINDS[4], 3, "store: main"),
    ));
    let limiter = one(&limits, "a");
    let unavailable = |answer: Result<(), Denied>| {
        assert_eq!(answer.expect_err("unknown").reason(), Reason::Unavailable);
    };
    unavailable(limiter.try_acquire(1.into()).map(drop));
    unavailable(limiter.reserve(1.into()).map(drop));
    unavailable(limiter.estimate(1.into()));
    assert!(limiter.acquire(1.into()).await.is_ok());
}

/// The secret is part of the names of keys: who has another, or none, finds nothing.
#[tokio::test]
async fn keys_are_named_with_a_secret_that_is_not_in_the_file() {
    let server = Server::start();
    let path = std::env::temp_dir().join(format!("plimsoll-secret-{}", std::process::id()));
    std::fs::write(&path, "hunter2\n").expect("a file");
    let text = |naming: &str| {
        let store = format!("stores: {{ main: {{ {}, {naming} }} }}", described(&server));
        format!(
            "{store}\nlimiters: {{ a: {} }}\n",
            limiter(KINDS[0], 1, "store: main, keyed: true")
        )
    };
    let from_file = text(&format!("key_secret: {{ file: '{}' }}", path.display()));
    let ask = async |text: &str| {
        let keyed = build(text).keyed("a").expect("there");
        keyed.acquire("anna", 1).await.is_ok()
    };
    assert!(ask(&from_file).await);
    assert!(!ask(&from_file).await, "the same secret");
    // Some variable that is always there.
    assert!(ask(&text("key_secret: { env: PATH }")).await, "another");
    assert!(ask(&text("raw_keys: true")).await);
    assert!(!config(&from_file).to_string().contains("hunter2"));

    let missing = text("key_secret: { env: PLIMSOLL_NO_SUCH_SECRET }");
    let error = config(&missing)
        .build(&Clock::system())
        .expect_err("not set");
    assert_eq!(
        error.to_string(),
        "limits.yaml:1:1: stores.main: no secret in the environment variable PLIMSOLL_NO_SUCH_SECRET: it is not set"
    );
    std::fs::write(&path, "\n").expect("a file");
    let error = config(&from_file)
        .build(&Clock::system())
        .expect_err("empty");
    assert!(error.to_string().ends_with(": it is empty"), "{error}");
    std::fs::remove_file(&path).expect("its own file");
}

#[tokio::test]
async fn what_was_borrowed_is_decided_here() {
    let server = Server::start();
    let limits = build(&format!(
        "stores: {{ main: {{ {} }} }}\nlimiters: {{ a: {} }}\n",
        described(&server),
        limiter(
            KINDS[4],
            1000,
            "store: main, keyed: true, borrow: { max: 100, keep: 1h }"
        ),
    ));
    let limiter = limits.keyed("a").expect("there");
    let mut here = 0;
    for _ in 0..100 {
        match limiter.try_acquire("anna", 1) {
            Ok(_) => here += 1,
            Err(_) => assert!(limiter.acquire("anna", 1).await.is_ok()),
        }
    }
    assert!(here > 50, "{here} of 100");
}

#[tokio::test]
async fn all_asks_each_and_keeps_nothing_if_one_refuses() {
    let server = Server::start();
    let text = format!(
        "stores: {{ main: {{ {} }} }}
limiters:
  here: {{ kind: token_bucket, burst: 5, refill: 1, every: 1h, style: interval }}
  slots: {{ kind: concurrency, limit: 2, store: main }}
  rate: {}
  rates: {{ kind: all, of: [rate, here] }}
  both: {{ kind: all, of: [slots, rates] }}
",
        described(&server),
        limiter(KINDS[4], 3, "store: main"),
    );
    let (a, b) = (build(&text), build(&text));
    let both = one(&a, "both");
    assert_eq!(
        (both.kind(), one(&a, "rates").kind()),
        (LimiterKind::Resource, LimiterKind::Rate)
    );
    let mut first = both.acquire(2.into()).await.expect("granted");
    let denied = both.acquire(1.into()).await.expect_err("no slot");
    assert_eq!(denied.limiter(), Some("slots"));
    assert_eq!(one(&a, "here").snapshot().available(), 3, "charged once");

    // A part is given back where it can be, and what was charged stays charged.
    let part = first.split(1).expect("two");
    drop((first, part));
    granted(&one(&b, "slots")).await;
    let last = one(&b, "rate")
        .acquire_owned(1.into())
        .await
        .expect("one is left");
    let denied = both.acquire(1.into()).await.expect_err("no token");
    assert_eq!(denied.limiter(), Some("rate"));
    assert_eq!(one(&a, "here").snapshot().available(), 3, "given back");
    granted(&one(&b, "slots")).await;

    // As if it had never been granted: the token is there for the other process.
    last.undo();
    granted(&one(&a, "rate")).await;
    assert_eq!(both.snapshot().denied_total(), 2);
}
