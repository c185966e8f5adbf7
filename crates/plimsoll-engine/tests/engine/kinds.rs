//! Kinds of limits that only a file puts together, asked by the engine.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use plimsoll::{Demand, ManualClock, Outcome, Reason};
use plimsoll_ambient::{MemoryReading, Sampler};
use plimsoll_config::{Config, Format};
use plimsoll_engine::{Ask, Limits};
use plimsoll_kinds::LimiterKind;

use crate::limits;

#[test]
fn an_adaptive_limit_by_key_learns_from_decisions_and_is_seen() {
    let (limits, _time) = limits(
        "limits: { backend: { kind: adaptive, algorithm: aimd, min: 1, initial: 2, key: header:x-backend } }",
    );
    let ask = |key| [Ask::new("backend").key(key)];
    let limit = |key| {
        let peeked = limits.peek(&ask(key)).expect("there is room");
        let standing = peeked.answers().next().and_then(|answer| answer.standing);
        standing.expect("it stands").limit
    };
    let (first, second) = (
        limits.try_decide(&ask("a")).expect("granted"),
        limits.try_decide(&ask("a")).expect("granted"),
    );
    assert!(limits.try_decide(&ask("a")).is_err());
    assert!(limits.try_decide(&ask("b")).is_ok());
    second.finish(Outcome::Overload);
    assert_eq!(
        (limit("b"), limits.kind("backend")),
        (2, Some(LimiterKind::Resource))
    );
    drop(first);
    assert_eq!(limit("a"), 1);
    let seen = &limits.snapshot()[0];
    assert_eq!(seen.snapshot.granted_total(), 3);
}

#[test]
fn a_decision_waits_for_memory_and_for_slots_at_once() {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let used = Arc::new(AtomicU64::new(900));
    let said = Arc::clone(&used);
    sampler.memory_source(move || {
        Ok(MemoryReading {
            used: said.load(Ordering::Relaxed),
            total: None,
        })
    });
    let text = "limits:
  heap: { kind: memory, hard_limit: 1000B, queue: { bound: 5 } }
  slots: { concurrency: 1, queue: { bound: 5 } }
";
    let config = Config::from_str("limits.yaml", text, Format::Yaml).expect("right");
    let limits = Limits::of(config.build_sampled(&sampler).expect("builds"));
    let asks = [Ask::new("heap"), Ask::new("slots")];
    let refusal = limits.try_decide(&asks).expect_err("saturated");
    assert_eq!(refusal.denied().reason(), Reason::Saturated);
    assert_eq!(limits.snapshot()[0].refused, [(Reason::Saturated, 1)]);

    let slot = limits.try_decide(&asks[1..]).expect("granted");
    let mut cx = Context::from_waker(Waker::noop());
    let mut decide = pin!(limits.decide(&asks, Demand::ONE));
    assert!(decide.as_mut().poll(&mut cx).is_pending());
    used.store(0, Ordering::Relaxed);
    sampler.sample().expect("measured");
    assert!(
        decide.as_mut().poll(&mut cx).is_pending(),
        "no slot is free"
    );
    drop(slot);
    assert!(decide.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn the_share_of_a_request_is_read_from_it() {
    let (limits, time) = limits(
        "limits:
  pool: { kind: partitions, limit: 4, shares: { live: 3, batch: 1 }, others: batch, key: header:x-class, without_key: share, queue: { bound: 4 } }
  rate: { rate: 100/s }
routes: [{ match: /**, limits: [pool, rate] }]
",
    );
    let ask = |class: Option<&str>| {
        let mut request = http::Request::get("/");
        if let Some(class) = class {
            request = request.header("x-class", class);
        }
        let request = request.body(()).expect("a request");
        let head = plimsoll_tower::Head::of(&request);
        limits.decide_request(&head, Demand::ONE).expect("a route")
    };
    let mut cx = Context::from_waker(Waker::noop());
    let held: Vec<_> = [Some("live"), Some("live"), Some("live"), None]
        .into_iter()
        .map(|class| {
            let mut decide = pin!(ask(class));
            match decide.as_mut().poll(&mut cx) {
                std::task::Poll::Ready(Ok(hold)) => hold,
                other => panic!("{class:?}: {other:?}"),
            }
        })
        .collect();
    let seen = &limits.snapshot()[0];
    assert_eq!((seen.snapshot.in_use(), seen.snapshot.limit()), (4, 4));
    let asks = |key| [Ask::new("pool").key(key), Ask::new("rate")];
    let refusal = limits
        .try_decide(&asks("live"))
        .expect_err("its share is used");
    assert_eq!(refusal.limit(), "pool");
    drop(held);
    assert!(limits.try_decide(&asks("live")).is_ok());
    time.advance(std::time::Duration::from_secs(10));

    // Batch work has borrowed all of it: live work waits for that to end.
    let borrowed = limits.try_decide(&[Ask::new("pool").key("nightly").cost(4)]);
    let borrowed = borrowed.expect("nobody else asks");
    let mut waiting = pin!(limits.decide(&asks("live"), Demand::ONE));
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    drop(borrowed);
    assert!(matches!(
        waiting.as_mut().poll(&mut cx),
        std::task::Poll::Ready(Ok(_))
    ));
}

#[test]
fn policies_decide_with_others_all_or_none() {
    let (limits, _time) = limits(
        "limits:
  packets: { kind: policies, handlers: { login: { rps: 1, burst: 2 } }, fallback: none, key: [route, client] }
  slots: { concurrency: 1 }
",
    );
    let asks = [
        Ask::new("packets").key("login|192.0.2.1"),
        Ask::new("slots"),
    ];
    let hold = limits.try_decide(&asks).expect("granted");
    assert_eq!(
        limits.try_decide(&asks).expect_err("no slot").limit(),
        "slots"
    );
    drop(hold);
    assert!(
        limits.try_decide(&asks).is_ok(),
        "nothing was charged for the refusal"
    );
    let refusal = limits.try_decide(&asks).expect_err("used up");
    assert_eq!(
        (refusal.limit(), refusal.denied().reason()),
        ("packets", Reason::SoftThrottle)
    );
    assert!(
        limits
            .try_decide(&[Ask::new("packets").key("move|192.0.2.1")])
            .is_ok()
    );
    assert_eq!(limits.kind("packets"), Some(LimiterKind::Rate));
    assert_eq!(limits.snapshot()[0].refused, [(Reason::SoftThrottle, 1)]);
}
