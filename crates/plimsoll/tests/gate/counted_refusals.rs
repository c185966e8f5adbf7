//! A log that counts refusals remembers no more than can matter, and is as quick as one that does not.

use std::time::Duration;

use crate::poll::poll;
use plimsoll::{Counts, Demand, Gate, ManualClock, Queue, Quota, Reason, SlidingLog};

fn gate(rule: SlidingLog, time: &ManualClock) -> Gate<SlidingLog> {
    Gate::builder(rule).clock(time.clock()).build()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "that it is quick is a claim about real time"
)]
fn a_flood_of_counted_refusals_is_quick() {
    // Every refusal was remembered, and all of them were walked through at every question: 200,000 took 85 s.
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::new(100, Duration::from_secs(10))).counting_refusals();
    let gate = gate(rule, &time);
    let start = std::time::Instant::now();
    gate.try_acquire(100).unwrap().forget();
    for _ in 0..200_000 {
        time.advance(Duration::from_nanos(1));
        assert!(gate.try_acquire(1).is_err());
    }
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "that it is quick is a claim about real time"
)]
fn a_long_log_is_as_quick_as_a_short_one() {
    // Looking walked through everything that had left the window, and refusing through everything that was in it.
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::new(100_000, Duration::from_secs(1))).counting_refusals();
    let gate = gate(rule, &time);
    let start = std::time::Instant::now();
    for _ in 0..100_000 {
        time.advance(Duration::from_nanos(1));
        gate.try_acquire(1).unwrap().forget();
    }
    for _ in 0..100_000 {
        time.advance(Duration::from_nanos(1));
        assert!(gate.try_acquire(1).is_err());
    }
    time.advance(Duration::from_secs(1));
    for _ in 0..100_000 {
        assert_eq!(gate.snapshot().available(), 100_000);
    }
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn the_newest_units_decide_when_the_next_one_is_let_through() {
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::new(3, Duration::from_secs(10))).counting_refusals();
    let gate = gate(rule, &time);
    gate.try_acquire(3).unwrap().forget();
    for second in 1..=5 {
        time.advance(Duration::from_secs(1));
        let denied = gate.try_acquire(2).unwrap_err();
        assert_eq!(denied.reason(), Reason::Exhausted);
        // Two of three are wanted, so both of these have to leave.
        assert_eq!(
            denied.retry_after(),
            Some(Duration::from_secs(10)),
            "{second}"
        );
    }
    assert_eq!(gate.snapshot().in_use(), 3, "of eleven that were recorded");
    // One of the three is of the refusal a second before.
    let denied = gate.estimate(1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
    time.advance(Duration::from_secs(9));
    assert_eq!(gate.snapshot().available(), 1);
}

#[test]
fn a_question_that_is_refused_is_not_counted() {
    // A cost of 0 was recorded like any other, and began a gap.
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::new(1, Duration::from_secs(10)));
    let rule = rule.min_gap(Duration::from_secs(5)).counting_refusals();
    let gate = gate(rule, &time);
    gate.try_acquire(1).unwrap().forget();
    time.advance(Duration::from_secs(9));
    assert!(gate.try_acquire(Demand::of(0)).is_err());
    time.advance(Duration::from_secs(1));
    assert!(gate.try_acquire(1).is_ok());
}

#[test]
fn a_refusal_that_is_counted_puts_off_those_who_wait_too() {
    // What was known of when those who wait are served was kept though the refusal had put them off; and the hint was
    // worked out before the refusal was counted.
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::new(1, Duration::from_secs(10))).counting_refusals();
    let gate = Gate::builder(rule).queue(Queue::fifo(1).counts(Counts::Waiting));
    let gate = gate.clock(time.clock()).build();
    gate.try_acquire(1).unwrap().forget();
    let mut waiter = gate.acquire(1);
    assert!(poll(&mut waiter).is_pending());
    for _ in 0..3 {
        time.advance(Duration::from_secs(1));
        let denied = gate.try_acquire(1).unwrap_err();
        // This refusal leaves ten seconds later, the waiter is served then, and leaves ten seconds later.
        assert_eq!(denied.retry_after(), Some(Duration::from_secs(20)));
    }
    time.advance(Duration::from_secs(20));
    assert!(gate.try_acquire(1).is_ok());
}
