//! Waiting without a borrow.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{
    Acquire, All, Concurrency, Demand, Denied, Gate, Keyed, Limiter, ManualClock, PerKey, Permit,
    Queue, Reason, TokenBucket,
};

fn poll(acquire: &mut Acquire<'static>) -> Poll<Result<Permit<'static>, Denied>> {
    Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn it_outlives_the_handle_and_is_served_in_turn() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let held = gate.try_acquire(1).expect("free").into_owned();
    let mut waiting = gate.acquire_owned(1);
    assert_eq!(
        gate.snapshot().waiters(),
        0,
        "nothing happens before the first poll"
    );
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(gate.snapshot().waiters(), 1);
    let seen = gate.clone();
    drop(gate);
    drop(held);
    let Poll::Ready(Ok(permit)) = poll(&mut waiting) else {
        panic!("its turn has come")
    };
    assert_eq!(seen.snapshot().in_use(), 1);
    drop(permit);
    assert_eq!(seen.snapshot().in_use(), 0);
}

#[test]
fn dropping_it_leaves_the_queue() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let _held = gate.try_acquire(1).expect("free");
    let mut waiting = gate.acquire_owned(1);
    assert!(poll(&mut waiting).is_pending());
    drop(waiting);
    assert_eq!(gate.snapshot().waiters(), 0);
}

#[test]
fn who_asks_at_once_does_not_wait() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .build();
    let at_once = Demand::of(1).at_once();
    assert!(matches!(
        poll(&mut gate.acquire_owned(at_once)),
        Poll::Ready(Ok(_))
    ));
    let Poll::Ready(Err(denied)) = poll(&mut gate.acquire_owned(at_once)) else {
        panic!("refused, and at once")
    };
    let tried = gate.try_acquire(1).expect_err("there is nothing left");
    assert_eq!(denied, tried);
    assert_eq!(gate.snapshot().denied_total(), 2);
}

#[test]
fn every_limiter_can_be_waited_for_without_a_borrow() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(4))
        .build();
    let all = All::new([Arc::new(gate.clone()) as Arc<dyn Limiter>]);
    let held = gate.try_acquire(1).expect("free");
    let mut waiting = Limiter::acquire_owned(&all, Demand::ONE);
    drop(all);
    assert!(poll(&mut waiting).is_pending());
    drop(held);
    assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))));

    let time = ManualClock::new();
    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .build();
    assert!(matches!(
        poll(&mut keyed.acquire_owned("anna", Demand::ONE)),
        Poll::Ready(Ok(_))
    ));
    let mut waiting = keyed.acquire_owned("anna", Demand::ONE);
    assert!(poll(&mut waiting).is_pending());
    let mut refused = keyed.acquire_owned("anna", Demand::ONE.at_once());
    assert!(
        matches!(poll(&mut refused), Poll::Ready(Err(denied)) if denied.reason() == Reason::Exhausted)
    );
    time.advance(Duration::from_secs(1));
    assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))));
}
