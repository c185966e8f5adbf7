//! Readiness is that of the service behind, and nothing else.

use std::pin::pin;
use std::task::Poll;

use plimsoll::{Concurrency, Gate};
use plimsoll_tower::{LimitError, LimitLayer};
use tower_layer::Layer;
use tower_service::Service;

use super::{call, look, ready, slots};
use crate::desk::{Broken, Desk};

#[test]
fn nothing_is_taken_before_the_call() {
    let desk = Desk::new(2);
    let (gate, mut service) = slots(1, 0, &desk);
    assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
    assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
    assert_eq!(gate.snapshot().in_use(), 0);
    assert_eq!(desk.free(), 1, "ready twice is ready once");
    let _call = service.call(1);
    assert_eq!(gate.snapshot().in_use(), 1, "taken before it is polled");
    assert_eq!(desk.called(), [1]);
}

#[test]
fn a_limit_that_is_used_up_is_ready() {
    let (gate, mut service) = slots(1, 0, &Desk::new(1));
    let _busy = gate.try_acquire(1).unwrap();
    assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
}

#[test]
fn a_clone_is_not_ready_because_the_original_is() {
    let desk = Desk::new(1);
    let (_, mut service) = slots(1, 0, &desk);
    assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
    let mut clone = service.clone();
    assert_eq!(ready(&mut clone), Poll::Pending);
    drop(service);
    assert_eq!(ready(&mut clone), Poll::Ready(Ok(())));
}

#[test]
fn a_service_that_is_not_ready_is_waited_for() {
    let desk = Desk::new(0);
    let (gate, mut service) = slots(1, 0, &desk);
    assert_eq!(ready(&mut service), Poll::Pending);
    assert_eq!(gate.snapshot().in_use(), 0);
    desk.add_slots(1);
    assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
}

#[test]
fn a_service_that_broke_down_says_so() {
    let desk = Desk::new(1);
    let (_, mut service) = slots(1, 0, &desk);
    desk.break_down();
    let broken = Err(LimitError::Service(Broken));
    assert_eq!(ready(&mut service), Poll::Ready(broken));
}

/// It once deadlocked: the service kept its readiness while the call waited with a clone, which then waited for
/// the slot that the service had.
#[test]
fn a_call_that_waits_leaves_nothing_reserved() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 1, &desk);
    let busy = gate.try_acquire(1).unwrap();
    let mut waiting = call(&mut service, 1);
    assert_eq!(desk.free(), 1, "nobody works");
    drop(busy);
    assert!(look(&mut waiting).is_pending());
    assert_eq!(desk.called(), [1]);
    desk.answer(1, Ok(1));
    assert_eq!(look(&mut waiting), Poll::Ready(Ok(1)));
}

/// A semaphore of tokio's would be pending now, though there is room.
#[tokio::test]
async fn readiness_does_not_use_up_the_budget_of_the_task() {
    let gate = Gate::new(Concurrency::new(1));
    let echo = tower::service_fn(async |number: u32| Ok::<_, Broken>(number));
    let mut service = LimitLayer::new(gate).layer(echo);
    tokio::spawn(async move {
        let mut spent = 0;
        while tokio::task::coop::has_budget_remaining() {
            let mut step = pin!(tokio::task::coop::consume_budget());
            let _spent = crate::hand::poll(step.as_mut());
            spent += 1;
            assert!(spent < 10_000, "a budget is finite");
        }
        for _ in 0..100_000 {
            assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
        }
        assert_eq!(service.call(7).await, Ok(7));
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn readiness_leaves_the_budget_as_it_is() {
    let gate = Gate::new(Concurrency::new(1));
    let echo = tower::service_fn(async |number: u32| Ok::<_, Broken>(number));
    let mut service = LimitLayer::new(gate).layer(echo);
    tokio::spawn(async move {
        for _ in 0..100_000 {
            assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
        }
        assert!(tokio::task::coop::has_budget_remaining());
    })
    .await
    .unwrap();
}
