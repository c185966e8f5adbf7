//! Decisions that are made now, to be used later.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{Demand, Reason};
use plimsoll_config::{Config, Format};
use plimsoll_engine::{Ask, Hold, Limits, Refusal, Reserved};
use plimsoll_tower::Head;
use proptest::prelude::*;

use crate::limits;
use crate::model::{Kind, Limit, Model};

const FILE: &str = "limits:
  tokens: { kind: token_bucket, burst: 10, refill: 10, every: 1s, key: header:x-account }
  calls: { kind: token_bucket, burst: 1, refill: 1, every: 1s }
  window: { kind: fixed_window, limit: 1, window: 10s, key: header:x-account }
  slots: { kind: concurrency, limit: 1, queue: { bound: 10 } }
  tomorrow: { kind: token_bucket, burst: 1, refill: 1, every: 1h, mode: shadow }
  plans: { rate: 5/h, key: header:x-account, overrides: { robot: blocked } }
routes:
  - { match: /work, limits: [tokens, calls] }
";

const SECOND: Duration = Duration::from_secs(1);

fn poll(reserved: &mut Reserved) -> Poll<Result<Hold, Refusal>> {
    pin!(reserved).poll(&mut Context::from_waker(Waker::noop()))
}

fn left(limits: &Limits, ask: Ask<'_>) -> Option<u64> {
    let standing = |answer: plimsoll_engine::Answer<'_>| answer.standing;
    let standing = match limits.peek(&[ask]) {
        Ok(hold) => hold.answers().next().and_then(standing),
        Err(refusal) => refusal.answers().next().and_then(standing),
    };
    standing.expect("it has a limit").remaining
}

#[test]
fn it_says_when_all_can_be_had_and_holds_them_then() {
    let (limits, time) = limits(FILE);
    let anna = Ask::new("tokens").key("anna");
    let asks = [anna.cost(6), Ask::new("calls")];
    let now = limits.try_reserve(&asks, 1).expect("it fits");
    assert_eq!(now.wait(), Some(Duration::ZERO));
    let mut later = limits.try_reserve(&asks, 1).expect("it fits later");
    assert_eq!(later.wait(), Some(SECOND));
    let waits: Vec<_> = later.waits().collect();
    let tokens = Duration::from_millis(200);
    assert_eq!(waits, [("tokens", Some(tokens)), ("calls", Some(SECOND))]);
    let costs: Vec<_> = later.answers().map(|it| (it.limit, it.cost)).collect();
    assert_eq!(costs, [("tokens", 6), ("calls", 1)]);

    assert!(poll(&mut later).is_pending());
    time.advance(Duration::from_millis(999));
    assert!(poll(&mut later).is_pending());
    time.advance(Duration::from_millis(1));
    let Poll::Ready(Ok(mut hold)) = poll(&mut later) else {
        panic!("its time has come");
    };
    // A hold like every other one: here it turned out to cost less.
    assert_eq!(hold.answers().count(), 2);
    hold.settle("tokens", 1);
    drop((hold, now));
    assert_eq!(
        left(&limits, anna),
        Some(8),
        "10 - 6 - 6 + 10 = 8, capped at 10 less 6 + 5 more"
    );
}

#[test]
fn dropping_it_gives_everything_back() {
    let (limits, time) = limits(FILE);
    let anna = Ask::new("tokens").key("anna");
    let asks = [
        anna.cost(6),
        Ask::new("calls"),
        Ask::new("window").key("anna"),
    ];
    let _first = limits.try_decide(&asks).expect("it fits");
    for _ in 0..3 {
        let later = limits.try_reserve(&asks, 1).expect("it fits later");
        assert_eq!(later.wait(), Some(SECOND * 10), "the window is the last");
        drop(later);
    }
    // Also when some of it was ready.
    let mut later = limits.try_reserve(&asks, 1).expect("it fits later");
    time.advance(SECOND * 2);
    assert!(poll(&mut later).is_pending());
    drop(later);
    assert_eq!(left(&limits, anna), Some(10));
    assert_eq!(left(&limits, Ask::new("calls")), Some(1));
    time.advance(SECOND * 8);
    assert!(limits.try_decide(&asks).is_ok());
}

#[test]
fn all_are_reserved_or_none_is() {
    let (limits, _time) = limits(FILE);
    let anna = Ask::new("tokens").key("anna");
    let asks = [anna.cost(6), Ask::new("window").key("anna")];
    assert!(limits.try_decide(&asks).is_ok());
    let in_time = Demand::ONE.within(SECOND);
    let refusal = limits.try_reserve(&asks, in_time).expect_err("too late");
    assert_eq!(refusal.limit(), "window");
    assert_eq!(refusal.retry_after(), Some(SECOND * 10));
    let granted: Vec<_> = refusal.answers().map(|it| it.is_granted()).collect();
    assert_eq!(
        granted,
        [true, false],
        "the tokens would have been there in time"
    );
    assert_eq!(left(&limits, anna), Some(4));

    let refusal = limits.try_reserve(&[anna.cost(11)], 1);
    let refusal = refusal.expect_err("more than it ever has");
    assert_eq!(refusal.denied().reason(), Reason::TooLarge);
    let refusal = limits.try_reserve(&[anna.cost(6), anna.cost(6)], 1);
    let refusal = refusal.expect_err("more than it ever has together");
    assert_eq!(refusal.denied().reason(), Reason::TooLarge);
    let refusal = limits.try_reserve(&[anna, Ask::new("plans").key("robot")], 1);
    assert_eq!(refusal.expect_err("it is blocked").limit(), "plans");
    let refusal = limits.try_reserve(&[anna, Ask::new("nothing")], 1);
    assert_eq!(refusal.expect_err("no such limit").limit(), "nothing");
    assert_eq!(left(&limits, anna), Some(4));
}

#[test]
fn the_same_subject_twice_is_reserved_for_the_sum() {
    let (limits, _time) = limits(FILE);
    let anna = Ask::new("tokens").key("anna");
    let mut both = limits
        .try_reserve(&[anna.cost(2), anna.cost(3)], 1)
        .expect("it fits");
    assert_eq!(left(&limits, anna), Some(5));
    let Poll::Ready(Ok(mut hold)) = poll(&mut both) else {
        panic!("it is there");
    };
    hold.settle_at(1, 1);
    assert_eq!(left(&limits, anna), Some(7), "2 + 1 are used");
    hold.undo();
    assert_eq!(left(&limits, anna), Some(10));
}

#[test]
fn slots_are_waited_for_in_their_queue() {
    let (limits, _time) = limits(FILE);
    let asks = [Ask::new("calls"), Ask::new("slots")];
    let first = limits.try_decide(&asks[1..]).expect("it is free");
    let mut later = limits.try_reserve(&asks, 1).expect("it may wait");
    assert_eq!(later.wait(), None, "nobody knows when");
    assert!(poll(&mut later).is_pending());
    drop(first);
    let Poll::Ready(Ok(hold)) = poll(&mut later) else {
        panic!("the slot is free");
    };
    assert!(limits.try_decide(&asks[1..]).is_err());
    drop(hold);
    assert!(limits.try_decide(&asks[1..]).is_ok());
}

#[test]
fn a_place_in_a_queue_is_kept_when_the_file_changes() {
    let (limits, _time) = limits(FILE);
    let slot = [Ask::new("slots")];
    let first = limits.try_decide(&slot).expect("it is free");
    let mut later = limits.try_reserve(&slot, 1).expect("it may wait");
    assert!(poll(&mut later).is_pending());
    // Another limiter stands behind the name.
    let text = FILE.replace(
        "kind: concurrency, limit: 1, queue: { bound: 10 }",
        "concurrency: adaptive, initial: 1, min: 1, max: 1, queue: { bound: 10 }",
    );
    assert_ne!(text, FILE);
    let config = Config::from_str("limits.yaml", &text, Format::Yaml);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    limits.replace(&config).expect("it can be built");
    assert!(poll(&mut later).is_pending());
    drop(first);
    assert!(matches!(poll(&mut later), Poll::Ready(Ok(_))));
}

#[test]
fn what_is_reserved_stays_so_when_the_numbers_change() {
    let (limits, time) = limits(FILE);
    let asks = [Ask::new("calls")];
    assert!(limits.try_decide(&asks).is_ok());
    let mut later = limits.try_reserve(&asks, 1).expect("it fits later");
    let text = FILE.replace(
        "burst: 1, refill: 1, every: 1s }",
        "burst: 2, refill: 1, every: 1s }",
    );
    let config = Config::from_str("limits.yaml", &text, Format::Yaml).expect("it is right");
    limits.replace(&config).expect("it can be built");
    time.advance(SECOND);
    assert!(matches!(poll(&mut later), Poll::Ready(Ok(_))));
}

#[test]
fn a_limit_in_shadow_mode_is_charged_when_it_is_used() {
    let (limits, time) = limits(FILE);
    let asks = [Ask::new("calls"), Ask::new("tomorrow")];
    let would = |limits: &Limits| limits.snapshot()[4].would_refuse;
    let cancelled = limits.try_reserve(&asks, 1).expect("it fits");
    drop(cancelled);
    assert_eq!(left(&limits, asks[1]), Some(1), "it was not used");
    for used in 0..2 {
        let mut reserved = limits.try_reserve(&asks, 1).expect("it fits");
        let refuses = reserved.answers().any(|it| it.shadow && !it.is_granted());
        assert_eq!(refuses, used == 1);
        time.advance(SECOND);
        assert!(matches!(poll(&mut reserved), Poll::Ready(Ok(_))));
        assert_eq!(would(&limits), used);
    }
}

#[test]
fn a_request_is_reserved_for_by_its_route() {
    let (limits, _time) = limits(FILE);
    let request = http::Request::get("/work")
        .header("x-account", "anna")
        .body(());
    let request = request.expect("it is right");
    let head = Head::of(&request);
    let reserve = || plimsoll::together::block_on(Box::pin(limits.reserve_request(&head, 1)));
    let first = reserve().expect("a route is for it").expect("it fits");
    let second = reserve()
        .expect("a route is for it")
        .expect("it fits later");
    assert_eq!(second.wait(), Some(SECOND));
    drop((first, second));
    let other = http::Request::get("/nothing")
        .body(())
        .expect("it is right");
    let head = Head::of(&other);
    let none = Box::pin(limits.reserve_request(&head, 1));
    assert!(plimsoll::together::block_on(none).is_none());
}

/// What a store has is taken now, and given back; what it has only later it refuses, and says when.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_store_takes_nothing_ahead_of_time() {
    let Some(server) = crate::redis::Server::start() else {
        return;
    };
    let text = "limits:
  far: { kind: token_bucket, burst: 2, refill: 1, every: 1h, key: header:x-account, store: shared }
  near: { kind: token_bucket, burst: 1, refill: 1, every: 1h }
";
    let limits = server.limits_on(text, &plimsoll::Clock::system());
    let anna = Ask::new("far").key("anna");
    let asks = [anna, Ask::new("near")];
    let reserved = limits.reserve(&asks, 1).await.expect("both are there");
    assert_eq!(reserved.wait(), Some(Duration::ZERO));
    let remaining = reserved
        .answers()
        .next()
        .and_then(|it| it.standing?.remaining);
    assert_eq!(remaining, Some(1), "as the store says");
    let held = reserved.await.expect("they are there");
    // A rate in memory can be had later, the one in the store is taken now and held for it.
    let later = limits.reserve(&asks, 1).await.expect("near is there later");
    assert!(later.wait() > Some(SECOND));
    let refusal = limits.reserve(&[anna], 1).await.expect_err("2 are taken");
    assert_eq!(refusal.limit(), "far");
    assert!(refusal.retry_after() > Some(SECOND));
    drop(later);
    let again = || limits.decide(std::slice::from_ref(&anna), 1);
    // The store is told in the background.
    let mut granted = false;
    for _ in 0..1000 {
        granted = again().await.is_ok();
        if granted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(granted, "what was cancelled was given back");
    drop(held);
}

fn asks() -> impl Strategy<Value = Vec<(usize, usize, u64)>> {
    prop::collection::vec((0_usize..4, 0_usize..3, 1_u64..4), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A decision is granted at the time that its reservation says and not before, and a reservation that is dropped leaves
    /// nothing behind.
    #[test]
    fn it_can_be_had_when_the_reservation_says(
        of in prop::collection::vec(crate::model::limit(), 4),
        history in prop::collection::vec((asks(), 0_u64..30), 0..12),
        wanted in asks(),
    ) {
        let of: Vec<Limit> = of.into_iter().filter(|it| !matches!(it.kind, Kind::Slots { .. })).collect();
        prop_assume!(!of.is_empty());
        let text: String = of.iter().enumerate().map(|(name, limit)| limit.text(name)).collect();
        let (limits, time) = limits(&format!("limits:\n{text}"));
        let model = Model::new(of.clone());
        let names: Vec<String> = (0..of.len()).map(|it| format!("l{it}")).collect();
        let real = |asks: &[(usize, usize, u64)]| -> Vec<Ask<'_>> {
            let known = asks.iter().map(|&(limit, key, cost)| (limit % of.len(), key, cost));
            known.map(|ask| model.ask(ask, &names[ask.0])).collect()
        };
        for (asks, later) in &history {
            let _ = limits.try_decide(&real(asks));
            time.advance(Duration::from_millis(*later));
        }
        let wanted = real(&wanted);
        let told = |answer: &Result<Hold, Refusal>| match answer {
            Ok(hold) => hold.answers().map(|it| it.standing).collect::<Vec<_>>(),
            Err(refusal) => refusal.answers().map(|it| it.standing).collect(),
        };
        let answer = limits.peek(&wanted);
        let before = (answer.is_ok(), told(&answer));
        let reserved = match limits.try_reserve(&wanted, 1) {
            Ok(reserved) => reserved,
            Err(refusal) => {
                prop_assert_eq!(refusal.denied().reason(), Reason::TooLarge);
                prop_assert!(!before.0);
                return Ok(());
            }
        };
        let wait = reserved.wait().expect("rates know when");
        prop_assert_eq!(wait.is_zero(), before.0);
        drop(reserved);
        prop_assert_eq!(told(&limits.peek(&wanted)), before.1);
        if !wait.is_zero() {
            time.advance(wait - Duration::from_nanos(1));
            prop_assert!(limits.peek(&wanted).is_err(), "a nanosecond too early");
            time.advance(Duration::from_nanos(1));
        }
        prop_assert!(limits.try_decide(&wanted).is_ok());
    }
}
