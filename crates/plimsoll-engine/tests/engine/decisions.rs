//! What a decision over many limits means (ENGINE 2).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{Demand, Reason};
use plimsoll_engine::{Ask, Limits};

use crate::limits;

const TWO: &str = "limits:
  user: { kind: token_bucket, burst: 3, refill: 1, every: 1s, key: header:x-user }
  all: { kind: token_bucket, burst: 5, refill: 1, every: 2s }
  slots: { kind: concurrency, limit: 2 }
";

fn remaining(limits: &Limits, ask: Ask<'_>) -> Option<u64> {
    let peeked = limits.peek(&[ask]);
    match &peeked {
        Ok(hold) => {
            hold.answers()
                .next()
                .expect("it works")
                .standing
                .expect("it works")
                .remaining
        }
        Err(refusal) => {
            refusal
                .answers()
                .next()
                .expect("it works")
                .standing
                .expect("it works")
                .remaining
        }
    }
}

#[test]
fn all_grant_or_none_does() {
    let (limits, _time) = limits(TWO);
    let asks = [
        Ask::new("user").key("anna"),
        Ask::new("all"),
        Ask::new("slots"),
    ];
    let first = limits.try_decide(&asks).expect("it works");
    let _second = limits.try_decide(&asks).expect("it works");
    let refusal = limits.try_decide(&asks).expect_err("it is refused");
    assert_eq!(refusal.limit(), "slots");
    assert_eq!(refusal.denied().reason(), Reason::Exhausted);
    assert_eq!(remaining(&limits, asks[0]), Some(1));
    assert_eq!(remaining(&limits, asks[1]), Some(3));
    drop(first);
    assert!(limits.try_decide(&asks).is_ok());
}

#[test]
fn a_key_has_a_state_of_its_own() {
    let (limits, _time) = limits(TWO);
    let ask = |user| [Ask::new("user").key(user).cost(3)];
    assert!(limits.try_decide(&ask("anna")).is_ok());
    assert!(limits.try_decide(&ask("anna")).is_err());
    assert!(limits.try_decide(&ask("bert")).is_ok());
}

#[test]
fn the_same_subject_twice_is_asked_for_the_sum() {
    let (limits, _time) = limits(TWO);
    let anna = Ask::new("user").key("anna");
    assert!(limits.try_decide(&[anna.cost(2), anna.cost(2)]).is_err());
    assert!(limits.peek(&[anna.cost(2), anna.cost(2)]).is_err());
    assert!(limits.try_decide(&[anna.cost(2), anna.cost(1)]).is_ok());
    let refusal = limits
        .try_decide(&[Ask::new("slots").cost(2), Ask::new("slots")])
        .expect_err("it is refused");
    assert_eq!(refusal.denied().reason(), Reason::TooLarge);
}

#[test]
fn each_limit_answers_and_the_binding_one_takes_longest() {
    let (limits, _time) = limits(TWO);
    let asks = [
        Ask::new("user").key("anna").cost(3),
        Ask::new("all").cost(5),
        Ask::new("slots"),
    ];
    let held = limits.try_decide(&asks).expect("it works");
    let stands: Vec<_> = held
        .answers()
        .map(|answer| {
            (
                answer.limit.to_owned(),
                answer.standing.expect("it works").remaining,
            )
        })
        .collect();
    assert_eq!(
        stands,
        [
            ("user".into(), Some(0)),
            ("all".into(), Some(0)),
            ("slots".into(), Some(1))
        ]
    );
    let refusal = limits.try_decide(&asks).expect_err("it is refused");
    let said: Vec<_> = refusal
        .answers()
        .map(|answer| (answer.is_granted(), answer.retry_after()))
        .collect();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(
        said,
        [(false, seconds(3)), (false, seconds(10)), (true, None)]
    );
    assert_eq!(refusal.limit(), "all");
    assert_eq!(refusal.retry_after(), seconds(10));
}

#[test]
fn a_peek_leaves_nothing_behind() {
    let (limits, _time) = limits(TWO);
    for user in 0..100 {
        let key = user.to_string();
        assert!(
            limits
                .peek(&[Ask::new("user").key(&key), Ask::new("slots")])
                .is_ok()
        );
    }
    let keyed = limits.limiters().keyed("user").expect("it works");
    assert_eq!(
        keyed.snapshot().granted_total() + keyed.snapshot().denied_total(),
        0
    );
    assert!(keyed.snapshot_of("7").is_none());
    assert!(limits.try_decide(&[Ask::new("slots").cost(2)]).is_ok());
}

#[test]
fn a_charge_is_taken_in_full() {
    let (limits, time) = limits(TWO);
    let anna = Ask::new("user").key("anna");
    limits.charge(&[anna.cost(5)]);
    time.advance(Duration::from_secs(2));
    assert!(
        limits.try_decide(&[anna]).is_err(),
        "it owes 2, and 2 came back"
    );
    time.advance(Duration::from_secs(1));
    assert!(limits.try_decide(&[anna]).is_ok());
}

#[test]
fn an_estimate_is_settled_or_taken_back() {
    let (limits, _time) = limits(TWO);
    let anna = Ask::new("user").key("anna");
    let mut hold = limits
        .try_decide(&[anna.cost(3), Ask::new("all")])
        .expect("it works");
    hold.settle("user", 1);
    drop(hold);
    assert_eq!(remaining(&limits, anna), Some(2));
    limits
        .try_decide(&[anna.cost(2), Ask::new("all").cost(2)])
        .expect("it works")
        .undo();
    assert_eq!(remaining(&limits, anna), Some(2));
    assert_eq!(remaining(&limits, Ask::new("all")), Some(4));
}

#[test]
fn a_limit_that_is_not_there_refuses_and_says_its_name() {
    let (limits, _time) = limits(TWO);
    let refusal = limits
        .try_decide(&[Ask::new("slots"), Ask::new("usr")])
        .expect_err("it is refused");
    assert_eq!(
        (refusal.limit(), refusal.denied().reason()),
        ("usr", Reason::Closed)
    );
    assert_eq!(refusal.binding(), None);
    assert!(
        limits.try_decide(&[Ask::new("slots").cost(2)]).is_ok(),
        "nothing was taken"
    );
}

#[test]
fn a_decision_waits_in_queues_and_holds_nothing_meanwhile() {
    let (limits, _time) = limits(
        "limits:
  slots: { kind: concurrency, limit: 1, queue: { bound: 10 } }
  user: { kind: token_bucket, burst: 3, refill: 1, every: 1s, key: header:x-user }
",
    );
    let asks = [Ask::new("slots"), Ask::new("user").key("anna")];
    let cx = &mut Context::from_waker(Waker::noop());
    let first = limits.try_decide(&asks).expect("it works");
    let mut second = pin!(limits.decide(&asks, 1));
    assert!(second.as_mut().poll(cx).is_pending());
    assert_eq!(
        remaining(&limits, asks[1]),
        Some(2),
        "who waits has paid nothing"
    );
    drop(first);
    let Poll::Ready(Ok(second)) = second.poll(cx) else {
        panic!("its turn has come")
    };
    assert_eq!(remaining(&limits, asks[1]), Some(1));
    drop(limits.decide(&asks, 1));
    assert_eq!(
        remaining(&limits, asks[1]),
        Some(1),
        "who leaves has paid nothing"
    );
    drop(second);
    drop(limits.decide(&asks, 1));
    assert_eq!(
        remaining(&limits, asks[1]),
        Some(1),
        "a decision that nobody read is undone"
    );
}

#[test]
fn one_deadline_counts_for_all() {
    let (limits, time) = limits(
        "limits:
  slow: { kind: token_bucket, burst: 1, refill: 1, every: 10s, queue: { bound: 10 } }
  slots: { kind: concurrency, limit: 1, queue: { bound: 10 } }
",
    );
    let asks = [Ask::new("slow"), Ask::new("slots")];
    let cx = &mut Context::from_waker(Waker::noop());
    let _held = limits.try_decide(&asks).expect("it works");
    let Poll::Ready(Err(refusal)) =
        pin!(limits.decide(&asks, Demand::ONE.within(Duration::from_secs(5)))).poll(cx)
    else {
        panic!("it cannot make it")
    };
    assert_eq!(refusal.limit(), "slow");
    let mut waits = pin!(limits.decide(&asks, Demand::ONE.within(Duration::from_secs(15))));
    assert!(waits.as_mut().poll(cx).is_pending());
    time.advance(Duration::from_secs(16));
    match waits.poll(cx) {
        Poll::Ready(Err(refusal)) => assert_eq!(refusal.denied().reason(), Reason::TimedOut),
        other => panic!("its time is up: {other:?}"),
    }
}

#[test]
fn a_refund_is_given_back_up_to_the_limit() {
    let (limits, _time) = limits(TWO);
    let (anna, all) = (Ask::new("user").key("anna"), Ask::new("all"));
    let _ = limits
        .try_decide(&[anna.cost(3), all.cost(5)])
        .expect("it works");
    limits.refund(&[anna.cost(2), all.cost(9)]);
    assert_eq!(remaining(&limits, anna), Some(2));
    assert_eq!(remaining(&limits, all), Some(5));
}

#[test]
fn what_is_granted_at_once_is_not_waited_for() {
    let (limits, _time) = limits(TWO);
    let now = |asks: &[Ask<'_>]| limits.decide(asks, 1).now().is_some();
    assert!(now(&[Ask::new("all")]), "one limit");
    assert!(now(&[Ask::new("user").key("a")]), "one key");
    assert!(
        now(&[Ask::new("user").key("b"), Ask::new("user").key("c")]),
        "two keys"
    );
    assert!(
        now(&[Ask::new("slots"), Ask::new("user").key("d")]),
        "slots and a key"
    );
    assert!(
        now(&[Ask::new("all"), Ask::new("user").key("e")]),
        "a limit and a key"
    );
    assert!(now(&[Ask::new("all"), Ask::new("slots")]), "two limits");
}

#[test]
fn an_adaptive_limit_shows_what_it_has_learned() {
    let limits = Limits::from_yaml(
        "limits: { slots: { concurrency: adaptive }, rate: { rate: 5/s }, fixed: { concurrency: 3 } }",
    )
    .expect("a good file");
    let view = limits.snapshot();
    let decisions: Vec<_> = view
        .iter()
        .map(|it| it.insight.map(|it| it.decision))
        .collect();
    assert_eq!(decisions, [Some("start"), None, None]);
}
