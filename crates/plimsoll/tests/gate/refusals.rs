//! What a refusal tells: why, how much there is, when it is worth asking again, and who said it.

use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::rules;
use plimsoll::{Concurrency, Demand, Denied, Gate, ManualClock, Queue, Quota, Reason, Reservation};

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_refusal_tells_what_the_limit_looked_like() {
    let time = ManualClock::new();
    for limiter in rules::rates(Quota::per_second(10), None, &time.clock()) {
        limiter.try_acquire(Demand::of(7)).unwrap().forget();
        for (cost, reason) in [(5, Reason::Exhausted), (11, Reason::TooLarge)] {
            let denied = limiter.try_acquire(Demand::of(cost)).unwrap_err();
            assert_eq!(denied.reason(), reason);
            assert_eq!((denied.limit(), denied.remaining()), (10, 3));
            assert!((denied.percent_used() - 70.0).abs() < 1e-9);
            assert_eq!(denied.limiter(), limiter.name());
            assert_eq!(denied.retry_after().is_some(), reason == Reason::Exhausted);
        }
    }
}

#[test]
fn everything_is_available_again_after_the_reset_and_not_before() {
    let time = ManualClock::new();
    // From an odd moment, after takes at several.
    for limiter in rules::rates(Quota::per_second(10), None, &time.clock()) {
        for nanos in [123_456_789, 98_765_432, 1] {
            time.advance(Duration::from_nanos(nanos));
            limiter.try_acquire(Demand::of(3)).unwrap().forget();
        }
        for cost in [1, 9, 10] {
            while limiter.try_acquire(Demand::of(cost)).is_ok() {}
            let denied = limiter.try_acquire(Demand::of(cost)).unwrap_err();
            let reset = denied.reset().unwrap();
            assert_eq!(limiter.estimate(Demand::of(cost)), Err(denied));
            time.advance(reset - NANO);
            assert!(limiter.snapshot().available() < 10, "{:?}", limiter.name());
            time.advance(NANO);
            assert_eq!(limiter.snapshot().available(), 10, "{:?}", limiter.name());
        }
    }
}

#[test]
fn what_others_must_give_back_comes_at_no_known_time() {
    let gate = Gate::builder(Concurrency::new(4)).name("slots").build();
    let _held = gate.try_acquire(3).unwrap();
    let denied = gate.try_acquire(2).unwrap_err();
    assert_eq!((denied.retry_after(), denied.reset()), (None, None));
    assert_eq!((denied.limit(), denied.remaining()), (4, 1));
    assert_eq!(denied.to_string(), "slots: the limit is used up");
}

/// Every way to be refused by a full limiter of 1 with a queue of 1.
fn refusals(gate: &Gate<Concurrency>, time: &ManualClock) -> Vec<(Denied, Reason)> {
    fn answer<T>(polled: Poll<Result<T, Denied>>) -> Denied {
        match polled {
            Poll::Ready(Err(denied)) => denied,
            _ => panic!("it was to be refused"),
        }
    }
    let _held = gate.try_acquire(1);
    let mut refusals = vec![
        (answer(Poll::Ready(gate.try_acquire(1))), Reason::Exhausted),
        (answer(Poll::Ready(gate.try_acquire(2))), Reason::TooLarge),
    ];
    let mut late = gate.acquire(Demand::ONE.within(NANO));
    assert!(poll(&mut late).is_pending());
    let full: Poll<Result<Reservation<'_>, _>> = Poll::Ready(gate.reserve(1));
    refusals.push((answer(full), Reason::QueueFull));
    time.advance(2 * NANO);
    refusals.push((answer(poll(&mut late)), Reason::TimedOut));
    let mut waiter = gate.acquire(1);
    assert!(poll(&mut waiter).is_pending());
    let critical = Demand::ONE.priority(plimsoll::Priority::Critical);
    let mut critical = gate.acquire(critical);
    assert!(poll(&mut critical).is_pending());
    refusals.push((answer(poll(&mut waiter)), Reason::Evicted));
    gate.close();
    refusals.push((answer(poll(&mut critical)), Reason::Closed));
    refusals
}

#[test]
fn every_refusal_has_a_reason_a_name_and_a_phrase() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .name("one")
        .build();
    for (denied, reason) in refusals(&gate, &time) {
        assert_eq!(denied.reason(), reason);
        assert_eq!(denied.limiter(), Some("one"));
        assert_eq!((denied.limit(), denied.remaining()), (1, 0), "{reason}");
        assert_eq!(denied.to_string(), format!("one: {}", reason.phrase()));
    }
}
