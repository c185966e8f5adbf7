//! Limits that pause because a partner says when to come back.

use std::task::Poll;
use std::time::Duration;

use plimsoll::{
    Carry, Concurrency, Gate, Keyed, ManualClock, Moment, Pausable, Queue, Quota, Rule,
    SlidingWindow, TokenBucket,
};

use crate::poll::poll;

const SECOND: Duration = Duration::from_secs(1);

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Gate<Pausable<R>> {
    Gate::builder(Pausable::new(rule))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build()
}

fn pauses<R: Rule>(rule: R) {
    let time = ManualClock::new();
    let gate = gate(rule, &time);
    drop(gate.try_acquire(1).expect("it is not paused"));
    gate.pause_for(3 * SECOND);
    // Neither shorter, nor longer by the sum.
    gate.pause_for(2 * SECOND);
    gate.pause_for(SECOND);
    let denied = gate.try_acquire(1).expect_err("it is paused");
    assert_eq!(denied.retry_after(), Some(3 * SECOND), "{gate:?}");
    assert!(gate.check_saturation().is_ok(), "there is a queue");
    assert_eq!(gate.snapshot().available(), 0);

    let mut waiting: Vec<_> = (0..3).map(|_| gate.acquire(1)).collect();
    for waits in &mut waiting {
        assert!(poll(waits).is_pending());
    }
    time.advance(Duration::from_nanos(2_999_999_999));
    assert!(waiting.iter_mut().all(|waits| poll(waits).is_pending()));
    assert!(gate.try_acquire(1).is_err());
    time.advance(Duration::from_nanos(1));
    for waits in &mut waiting {
        assert!(matches!(poll(waits), Poll::Ready(Ok(_))), "{gate:?}");
    }
}

#[test]
fn nobody_is_served_before_the_latest_pause_ends() {
    pauses(TokenBucket::per_second(10));
    pauses(SlidingWindow::new(Quota::per_second(10), 4));
    pauses(Concurrency::new(10));
}

#[test]
fn who_waits_already_waits_through_a_pause() {
    let time = ManualClock::new();
    let gate = gate(TokenBucket::per_second(1), &time);
    let _first = gate.try_acquire(1).expect("there is one");
    let mut waits = gate.acquire(1);
    assert!(poll(&mut waits).is_pending());
    gate.pause_until(Moment::ORIGIN.plus(5 * SECOND));
    time.advance(4 * SECOND);
    assert!(poll(&mut waits).is_pending());
    // One second of refill has come, and the waiter takes it when the pause ends: the next one comes a second later.
    let denied = gate
        .try_acquire(1)
        .expect_err("paused, and behind a waiter");
    assert_eq!(denied.retry_after(), Some(2 * SECOND));
    time.advance(SECOND);
    assert!(poll(&mut waits).is_ready());
}

#[test]
fn a_pause_outlives_a_change_of_the_rule_and_holds_for_all_keys() {
    let time = ManualClock::new();
    let gate = gate(TokenBucket::per_second(1), &time);
    gate.pause_for(SECOND);
    gate.replace(Pausable::new(TokenBucket::per_second(9)), Carry::Reset);
    assert!(gate.try_acquire(1).is_err());
    assert!(
        gate.reserve(1)
            .is_ok_and(|reserved| reserved.wait() == Some(SECOND))
    );
    time.advance(SECOND);
    assert!(gate.try_acquire(8).is_ok());

    let rule = Pausable::new(TokenBucket::per_second(1));
    let keyed: Keyed<String, _> = Keyed::builder(rule.clone()).clock(time.clock()).build();
    assert!(keyed.try_acquire("red", 1).is_ok());
    rule.pause_until(Moment::ORIGIN.plus(3 * SECOND));
    let denied = keyed.try_acquire("blue", 1).expect_err("all are paused");
    assert_eq!(denied.retry_after(), Some(2 * SECOND));
    time.advance(2 * SECOND);
    assert!(keyed.try_acquire("blue", 1).is_ok());
}
