//! Limits of a file that are kept in Redis: shared, changed while they are used, and without a Redis.

#[path = "../../../plimsoll-redis/tests/redis/server.rs"]
#[expect(dead_code, reason = "shared with the tests of another crate")]
mod server;

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use plimsoll::{Clock, Denied, Reason};
use plimsoll_config::{ChangeKind, Changes, Config, Format, FreshReason, Limits, StateOutcome};
use plimsoll_kinds::{AnyLimiter, LimiterKind};
use server::Server;

/// A store on this server as a file describes it, patient enough for a machine with much to do.
fn described(server: &Server) -> String {
    format!("url: '{}', deadline: 20s", server.url())
}

/// Every kind that can be kept, with a limit of its own, on so long a time that none of it passes.
const KINDS: [&str; 7] = [
    "fixed_window, window: 10000d, limit: ",
    "sliding_window, window: 10000d, segments: 10, limit: ",
    "sliding_log, window: 1d, limit: ",
    "sliding_counter, window: 10000d, limit: ",
    "token_bucket, refill: 1, every: 10000d, style: interval, burst: ",
    "bandwidths, limits: [{ refill: 1, every: 10000d, style: interval, burst: ",
    "concurrency, limit: ",
];

/// A limiter of a kind with a limit.
fn limiter(kind: &str, limit: u64, more: &str) -> String {
    let end = if kind.contains('[') { " }]" } else { "" };
    format!("{{ kind: {kind}{limit}{end}, {more} }}")
}

fn config(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"))
}

fn build(text: &str) -> Limits {
    config(text).build(&Clock::system()).expect("builds")
}

fn replace(limits: &Limits, text: &str) -> Changes {
    limits.replace(&config(text)).expect("builds")
}

fn one(limits: &Limits, name: &str) -> AnyLimiter {
    limits.limiter(name).expect("there")
}

/// Asks until it is granted: what is given back goes back in the background.
async fn granted(limiter: &AnyLimiter) {
    let granted = async {
        while limiter.acquire(1.into()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let granted = tokio::time::timeout(Duration::from_secs(20), granted);
    granted.await.expect("it is given back");
}

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
async fn without_its_store_a_limiter_answers_as_the_file_says() {
    let server = Server::start();
    let bucket = |outage| limiter(KINDS[4], 8, &format!("store: main, {outage}"));
    let limits = build(&format!(
        "stores: {{ main: {{ {} }} }}
limiters:
  deny: {}
  admit: {}
  local: {}
  keys: {}
  slots: {{ kind: concurrency, limit: 8, store: main, outage: {{ local: 0.25 }} }}
",
        described(&server),
        bucket(""),
        bucket("outage: admit"),
        bucket("outage: { local: 0.25 }"),
        bucket("outage: { local: 0.25 }, keyed: true"),
    ));
    assert!(one(&limits, "deny").acquire(1.into()).await.is_ok());
    drop(server);

    for _ in 0..20 {
        let denied = one(&limits, "deny").acquire_owned(1.into()).await;
        let denied = denied.expect_err("there is no store");
        assert_eq!(denied.reason(), Reason::Unavailable);
        assert!(one(&limits, "admit").acquire(8.into()).await.is_ok());
    }
    for name in ["local", "slots"] {
        let limiter = one(&limits, name);
        let held = limiter.acquire(2.into()).await.expect("a quarter");
        let denied = limiter.acquire(1.into()).await.expect_err("no more");
        assert_eq!(denied.reason(), Reason::Exhausted, "{name}");
        drop(held);
    }
    let keys = limits.keyed("keys").expect("there");
    assert!(keys.acquire("anna", 2).await.is_ok());
    assert!(keys.acquire("anna", 1).await.is_err());
    assert!(keys.acquire("bert", 2).await.is_ok());
}

#[tokio::test]
async fn an_address_with_tls_is_spoken_to_in_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let limits = build(&format!(
        "stores: {{ main: {{ url: 'rediss://{address}', deadline: 20s }} }}\nlimiters: {{ a: {} }}\n",
        limiter(KINDS[4], 1, "store: main"),
    ));
    let heard = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("somebody comes");
        let mut hello = [0; 2];
        caller.read_exact(&mut hello).map(|()| hello)
    });
    let denied = one(&limits, "a").acquire_owned(1.into()).await;
    let denied = denied.expect_err("it hung up");
    assert_eq!(denied.reason(), Reason::Unavailable);
    let hello = heard.join().expect("it listened").expect("a greeting");
    assert_eq!(hello, [0x16, 3], "a handshake of TLS");
}

#[test]
fn nothing_connects_before_it_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("asked, not waited");
    let address = listener.local_addr().expect("its address");
    let limits = build(&format!(
        "stores: {{ main: {{ url: 'redis://{address}' }}, nobodys: {{ cluster: ['redis://{address}'] }} }}
limiters: {{ a: {{ kind: concurrency, limit: 1, store: main }} }}
"
    ));
    assert!(one(&limits, "a").try_acquire(1.into()).is_err());
    let nobody = listener.accept().expect_err("nobody comes");
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
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
