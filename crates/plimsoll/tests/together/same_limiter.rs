//! One limiter several times among those that are asked at once: its costs add up.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::gates::{all, gate, per_second, queued};
use crate::poll::poll;
use crate::waiter::Waiter;
use plimsoll::{Concurrency, Demand, FixedWindow, Limiter, ManualClock, Quota, Reason, SlidingLog};

const SECOND: Duration = Duration::from_secs(1);

/// `acquire` spun for ever: what it took for the first mention was missing for the second.
#[test]
fn costs_of_one_limiter_add_up() {
    let time = ManualClock::new();
    let slots = queued(Concurrency::new(3), &time);
    let twice = all(&[slots.clone(), slots.clone()]);
    let nested = all(&[Arc::new(twice.clone()), slots.clone()]);
    let permit = twice.try_acquire(1).unwrap();
    assert_eq!(slots.snapshot().in_use(), 2);
    assert_eq!(slots.snapshot().granted_total(), 1);
    drop(permit);
    assert_eq!(slots.snapshot().in_use(), 0);
    let permit = nested.try_acquire(1).unwrap();
    assert_eq!(slots.snapshot().in_use(), 3);
    permit.undo();
    assert_eq!(
        (slots.snapshot().in_use(), slots.snapshot().granted_total()),
        (0, 1)
    );

    let held = slots.try_acquire(2).unwrap();
    let mut waiter = Waiter::new(twice.acquire(1));
    assert_eq!(slots.snapshot().waiters(), 1);
    drop(held);
    let Poll::Ready(Ok(permit)) = waiter.look() else {
        panic!("two are free");
    };
    assert_eq!(slots.snapshot().in_use(), 2);
    drop(permit);
}

#[test]
fn what_one_limiter_can_never_grant_twice_is_too_large_at_once() {
    let time = ManualClock::new();
    for limit in [1, 3, u64::MAX] {
        let slots = queued(Concurrency::new(limit), &time);
        let twice = all(&[slots.clone(), slots.clone()]);
        let cost = limit / 2 + 1;
        assert_eq!(
            twice.try_acquire(cost).unwrap_err().reason(),
            Reason::TooLarge
        );
        assert_eq!(
            twice.estimate(Demand::of(cost)).unwrap_err().reason(),
            Reason::TooLarge
        );
        assert_eq!(
            twice.reserve(Demand::of(cost)).unwrap_err().reason(),
            Reason::TooLarge
        );
        let Poll::Ready(Err(denied)) = poll(&mut twice.acquire(cost)) else {
            panic!("it can never be granted");
        };
        assert_eq!(denied.reason(), Reason::TooLarge);
        assert_eq!(slots.snapshot().in_use(), 0);
    }
}

#[test]
fn a_reservation_of_one_limiter_twice_takes_both_costs() {
    let time = ManualClock::new();
    let bucket = gate(per_second(2), &time);
    let twice = all(&[bucket.clone(), bucket.clone()]);
    let reservation = twice.reserve(Demand::ONE).unwrap();
    assert_eq!(bucket.snapshot().available(), 0);
    drop(reservation);
    assert_eq!(bucket.snapshot().available(), 2);
}

/// One that has to queue for its reservation was asked twice.
#[test]
fn each_member_is_reserved_with_once() {
    let time = ManualClock::new();
    let window = gate(FixedWindow::new(Quota::per_second(10)), &time);
    let log = gate(SlidingLog::new(Quota::per_second(10)), &time);
    let both = all(&[log.clone(), window.clone()]);
    both.try_acquire(10).unwrap().forget();
    let reserved = both.reserve(Demand::of(4)).unwrap();
    assert_eq!(
        (log.snapshot().queued(), window.snapshot().queued()),
        (4, 4)
    );
    time.advance(SECOND);
    let permit = reserved.wait_blocking().unwrap();
    assert_eq!(
        (log.snapshot().available(), window.snapshot().available()),
        (6, 6)
    );
    drop(permit);
}
