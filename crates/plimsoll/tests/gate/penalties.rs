//! A lockout holds for whoever asks, however it asks, and ends when it was said to end.

use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use plimsoll::{
    Counts, Demand, Gate, ManualClock, PenaltyBucket, Queue, Quota, Reason, SlidingLog, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);

/// Ten tokens a second, and a lockout of a minute at the third refusal.
fn rule() -> PenaltyBucket {
    PenaltyBucket::new(TokenBucket::per_second(10)).lockout(3, 60 * SECOND)
}

fn gate(queue: Option<Queue>, time: &ManualClock) -> Gate<PenaltyBucket> {
    let builder = Gate::builder(rule()).clock(time.clock());
    match queue {
        Some(queue) => builder.queue(queue).build(),
        None => builder.build(),
    }
}

fn lock_out(gate: &Gate<PenaltyBucket>) {
    gate.take_up_to(10).forget();
    let reasons = [(); 3].map(|()| gate.try_acquire(1).map_err(|denied| denied.reason()).err());
    assert_eq!(reasons[2], Some(Reason::LockedOut));
}

#[test]
fn a_reservation_does_not_pass_by_a_lockout() {
    // Taking ahead of time asked the bucket only.
    let time = ManualClock::new();
    let gate = gate(None, &time);
    lock_out(&gate);
    time.advance(10 * SECOND);
    let denied = gate.reserve(Demand::of(1).within(SECOND)).unwrap_err();
    assert_eq!(denied.reason(), Reason::LockedOut);
    assert_eq!(denied.retry_after(), Some(50 * SECOND));
    assert_eq!(gate.reserve(1).unwrap().wait(), Some(50 * SECOND));
}

#[test]
fn a_reservation_starts_the_count_of_refusals_anew() {
    // Only what was taken at once did.
    let time = ManualClock::new();
    let gate = gate(None, &time);
    gate.try_acquire(10).unwrap().forget();
    for _ in 0..2 {
        assert!(gate.try_acquire(1).is_err());
    }
    let _ahead = gate.reserve(1).unwrap();
    for _ in 0..2 {
        let denied = gate.try_acquire(1).unwrap_err();
        assert_eq!(denied.reason(), Reason::SoftThrottle);
    }
    assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::LockedOut);
}

#[test]
fn there_is_no_room_during_a_lockout() {
    // The tokens in the bucket were shown as available.
    let time = ManualClock::new();
    let gate = gate(None, &time);
    lock_out(&gate);
    time.advance(59 * SECOND);
    assert_eq!(gate.snapshot().available(), 0);
    assert_eq!(gate.take_up_to(5).cost(), 0);
    let denied = gate.check_saturation().unwrap_err();
    assert_eq!(denied.reason(), Reason::Saturated);
    assert_eq!(denied.retry_after(), Some(SECOND));
    time.advance(SECOND);
    assert_eq!(gate.snapshot().available(), 10);
    assert!(gate.check_saturation().is_ok());
}

#[test]
fn refusals_of_the_queue_do_not_extend_a_lockout() {
    // A refusal for a full queue or a deadline was counted though nothing could have been granted, and it did not say
    // that there is a lockout.
    let time = ManualClock::new();
    let gate = gate(Some(Queue::fifo(0).counts(Counts::Waiting)), &time);
    lock_out(&gate);
    let refused = |demand: Demand| match poll(&mut gate.acquire(demand)) {
        Poll::Ready(Err(denied)) => denied.reason(),
        other => panic!("{other:?}"),
    };
    for _ in 0..5 {
        time.advance(SECOND);
        gate.set_queue_bound(0);
        assert_eq!(refused(Demand::ONE), Reason::LockedOut);
        gate.set_queue_bound(1);
        assert_eq!(refused(Demand::ONE.within(SECOND)), Reason::LockedOut);
    }
    time.advance(55 * SECOND);
    assert!(gate.try_acquire(1).is_ok(), "after a minute it is over");
}

#[test]
fn a_question_that_is_refused_is_not_a_refusal_in_a_row() {
    // A cost of 0 was counted like any other.
    let gate = gate(None, &ManualClock::new());
    gate.try_acquire(10).unwrap().forget();
    for _ in 0..9 {
        let denied = gate.try_acquire(Demand::of(0)).unwrap_err();
        assert_eq!(denied.reason(), Reason::SoftThrottle);
    }
}

#[test]
fn behind_waiters_the_reason_is_still_that_of_the_rule() {
    // Whoever may not pass was told that the limit is exhausted, whatever the rule had to say.
    let time = ManualClock::new();
    let gate = gate(Some(Queue::fifo(50)), &time);
    gate.try_acquire(10).unwrap().forget();
    let mut waiter = gate.acquire(10);
    assert!(poll(&mut waiter).is_pending());
    let denied = gate.try_acquire(1).unwrap_err();
    assert_eq!(denied.reason(), Reason::SoftThrottle);
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(1100)));
    for expected in [Reason::SoftThrottle, Reason::LockedOut, Reason::LockedOut] {
        assert_eq!(gate.try_acquire(1).unwrap_err().reason(), expected);
    }
    assert_eq!(gate.estimate(1).unwrap_err().reason(), Reason::LockedOut);

    let rule = SlidingLog::new(Quota::per_minute(10)).min_gap(SECOND);
    let gate = Gate::builder(rule)
        .queue(Queue::fifo(5))
        .clock(time.clock());
    let gate = gate.build();
    gate.try_acquire(1).unwrap().forget();
    let mut waiter = gate.acquire(1);
    assert!(poll(&mut waiter).is_pending());
    let denied = gate.try_acquire(1).unwrap_err();
    assert_eq!(denied.reason(), Reason::TooSoon);
    assert_eq!(denied.retry_after(), Some(2 * SECOND));
}

#[test]
fn what_is_charged_neither_forgives_nor_ends_a_lockout() {
    let time = ManualClock::new();
    let gate = gate(None, &time);
    gate.try_acquire(10).unwrap().forget();
    for _ in 0..2 {
        assert!(gate.try_acquire(1).is_err());
    }
    gate.charge(1);
    assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::LockedOut);
}
