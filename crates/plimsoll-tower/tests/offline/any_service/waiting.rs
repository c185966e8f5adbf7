//! Calls that are refused, that wait, and that are given up.

use std::task::Poll;
use std::time::Duration;

use plimsoll::{Concurrency, Demand, Gate, ManualClock, Queue, Reason, TokenBucket};
use plimsoll_tower::{LimitError, LimitLayer};
use tower_layer::Layer;
use tower_service::Service;

use super::{Call, call, look, ready, slots};
use crate::desk::{Broken, Desk};

fn reason<E>(answer: Poll<Result<u32, LimitError<E>>>) -> Reason {
    match answer {
        Poll::Ready(Err(LimitError::Denied(denied))) => denied.reason(),
        _ => panic!("it was not refused"),
    }
}

#[test]
fn without_a_queue_a_call_is_refused_at_once() {
    let desk = Desk::new(2);
    let gate = Gate::new(Concurrency::new(1));
    let mut service = LimitLayer::new(gate.clone()).layer(desk.clone());
    let _busy = call(&mut service, 1);
    assert_eq!(reason(look(&mut call(&mut service, 2))), Reason::Exhausted);
    assert_eq!(desk.called(), [1], "the service was not called");
    assert_eq!(gate.snapshot().denied_total(), 1, "counted once");
}

#[test]
fn who_sheds_does_not_wait() {
    let desk = Desk::new(2);
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .build();
    let mut service = LimitLayer::new(gate.clone()).shed().layer(desk.clone());
    let _busy = call(&mut service, 1);
    let mut refused = call(&mut service, 2);
    assert_eq!(gate.snapshot().waiters(), 0);
    let reason = reason(look(&mut refused));
    assert!(
        matches!(reason, Reason::Exhausted | Reason::TimedOut),
        "{reason:?}"
    );
}

#[test]
fn calls_wait_in_the_order_they_were_made() {
    let desk = Desk::new(10);
    let (gate, mut service) = slots(1, 3, &desk);
    let busy = gate.try_acquire(1).unwrap();
    let mut calls: Vec<Call> = (1..=3).map(|n| call(&mut service, n)).collect();
    assert_eq!(
        gate.snapshot().waiters(),
        3,
        "they wait before they are polled"
    );
    assert_eq!(reason(look(&mut call(&mut service, 4))), Reason::QueueFull);
    for call in calls.iter_mut().rev() {
        assert!(look(call).is_pending());
    }
    drop(busy);
    for turn in 1..=3 {
        for call in calls.iter_mut().rev() {
            assert!(look(call).is_pending());
        }
        assert_eq!(desk.called(), (1..=turn).collect::<Vec<_>>());
        desk.answer(turn, Ok(turn));
        assert_eq!(look(&mut calls[0]), Poll::Ready(Ok(turn)));
        drop(calls.remove(0));
    }
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_call_waits_as_long_as_its_demand_says() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(1);
    let gate = Gate::builder(rule)
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let patience = |ms: &u32| Demand::ONE.within(Duration::from_millis(u64::from(*ms)));
    let mut service = LimitLayer::new(gate.clone())
        .demand(patience)
        .layer(Desk::new(9));
    let _first = call(&mut service, 0);
    let mut hasty = call(&mut service, 900);
    let mut patient = call(&mut service, 1000);
    let refused = reason(look(&mut hasty));
    assert!(
        matches!(refused, Reason::TimedOut | Reason::Exhausted),
        "{refused:?}"
    );
    assert!(look(&mut patient).is_pending());
    assert_eq!(gate.snapshot().waiters(), 1);
    time.advance(Duration::from_secs(1));
    assert!(look(&mut patient).is_pending(), "its work goes on");
    assert_eq!(gate.snapshot().waiters(), 0);
}

#[test]
fn a_limiter_that_is_closed_refuses_who_waits() {
    let (gate, mut service) = slots(1, 3, &Desk::new(9));
    let _busy = gate.try_acquire(1).unwrap();
    let mut waiting = call(&mut service, 1);
    gate.close();
    assert_eq!(reason(look(&mut waiting)), Reason::Closed);
    assert_eq!(reason(look(&mut call(&mut service, 2))), Reason::Closed);
}

#[test]
fn who_gives_up_waiting_leaves_the_queue() {
    let desk = Desk::new(9);
    let (gate, mut service) = slots(1, 3, &desk);
    let busy = gate.try_acquire(1).unwrap();
    let first = call(&mut service, 1);
    let mut second = call(&mut service, 2);
    drop(first);
    assert_eq!(gate.snapshot().waiters(), 1);
    drop(busy);
    assert!(look(&mut second).is_pending());
    assert_eq!(desk.called(), [2]);
}

#[test]
fn who_gives_up_in_the_last_moment_passes_its_turn_on() {
    let desk = Desk::new(9);
    let (gate, mut service) = slots(1, 3, &desk);
    let busy = gate.try_acquire(1).unwrap();
    let mut first = call(&mut service, 1);
    let mut second = call(&mut service, 2);
    assert!(look(&mut first).is_pending());
    drop(busy);
    // It has been granted, and does not know.
    drop(first);
    assert!(look(&mut second).is_pending());
    assert_eq!(desk.called(), [2]);
    drop(second);
    assert_eq!(gate.snapshot().in_use(), 0);
    assert_eq!(desk.free(), 9);
}

#[test]
fn who_gives_up_while_the_service_is_not_ready_gives_everything_back() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 3, &desk);
    let busy = gate.try_acquire(1).unwrap();
    let mut waiting = call(&mut service, 1);
    assert_eq!(ready(&mut service.clone()), Poll::Ready(Ok(())));
    // Somebody else has the only slot of the service when its turn has come.
    let mut other = desk.clone();
    assert_eq!(ready(&mut other), Poll::Ready(Ok(())));
    drop(busy);
    assert!(look(&mut waiting).is_pending());
    assert_eq!(gate.snapshot().in_use(), 1);
    assert!(desk.called().is_empty());
    drop(waiting);
    assert_eq!(gate.snapshot().in_use(), 0);
    drop((other, service));
    assert_eq!(desk.free(), 1);
}

/// A rate, too: the service was never called. It once kept the token.
#[test]
fn a_turn_that_comes_to_nothing_is_not_charged() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(1);
    let gate = Gate::builder(rule)
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let desk = Desk::new(2);
    let mut service = LimitLayer::new(gate.clone()).layer(desk.clone());
    let busy = call(&mut service, 0);
    let (mut given_up, mut failed) = (call(&mut service, 1), call(&mut service, 2));
    drop((busy, service));
    let (mut a, mut b) = (desk.clone(), desk.clone());
    assert!(ready(&mut a).is_ready() && ready(&mut b).is_ready());
    time.advance(Duration::from_secs(1));
    assert!(look(&mut given_up).is_pending());
    drop(given_up);
    assert!(
        look(&mut failed).is_pending(),
        "the token is there again, and it is the next one's turn"
    );
    desk.break_down();
    assert_eq!(
        look(&mut failed),
        Poll::Ready(Err(LimitError::Service(Broken)))
    );
    // Before it is dropped.
    assert_eq!(gate.snapshot().available(), 1);
    assert_eq!(desk.called(), [0]);
}

#[test]
fn who_gives_up_its_work_gives_everything_back() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 0, &desk);
    let mut working = call(&mut service, 1);
    assert!(look(&mut working).is_pending());
    drop(working);
    assert_eq!((gate.snapshot().in_use(), desk.free()), (0, 1));
    drop(call(&mut service, 2));
    assert_eq!(
        (gate.snapshot().in_use(), desk.free()),
        (0, 1),
        "not even polled"
    );
}

#[test]
fn errors_pass_through_and_give_back() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 0, &desk);
    let mut failing = call(&mut service, 1);
    desk.answer(1, Err(Broken));
    assert_eq!(
        look(&mut failing),
        Poll::Ready(Err(LimitError::Service(Broken)))
    );
    assert_eq!(gate.snapshot().in_use(), 0, "before it is dropped");
}

#[test]
fn a_panic_in_the_service_gives_back() {
    let gate = Gate::new(Concurrency::new(1));
    let panics =
        tower::service_fn(async |number: u32| -> Result<u32, Broken> { panic!("{number}") });
    let mut service = LimitLayer::new(gate.clone()).layer(panics);
    let call = std::panic::AssertUnwindSafe(service.call(1));
    let ended = std::panic::catch_unwind(move || crate::hand::now({ call }.0));
    assert!(ended.is_err());
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn an_error_says_what_it_is() {
    use std::error::Error;

    let (gate, mut service) = slots(1, 0, &Desk::new(2));
    let _busy = gate.try_acquire(1).unwrap();
    let Poll::Ready(Err(error)) = look(&mut call(&mut service, 1)) else {
        panic!("it was not refused")
    };
    assert_eq!(error.to_string(), error.denied().unwrap().to_string());
    let own: LimitError<Broken> = LimitError::Service(Broken);
    assert_eq!((own.to_string().as_str(), own.denied()), ("broken", None));
    assert!(own.source().is_none());
}
