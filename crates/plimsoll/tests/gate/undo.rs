//! A permit that was not needed after all: as if it had never been granted, and never more than that.

use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::rules;
use plimsoll::{
    Concurrency, Demand, FixedWindow, Gate, ManualClock, Outcome, Queue, Quota, Rule, SlidingLog,
    SlidingWindow, Smooth, TokenBucket,
};

#[test]
fn the_permit_of_a_rate_gives_nothing_back_unless_it_is_undone() {
    let time = ManualClock::new();
    for limiter in rules::rates(Quota::per_second(10), None, &time.clock()) {
        let take = || limiter.try_acquire(Demand::of(3)).unwrap();
        drop(take());
        take().finish(Outcome::Success);
        assert_eq!(limiter.snapshot().available(), 4, "{:?}", limiter.name());
        take().undo();
        assert_eq!(limiter.snapshot().available(), 4, "{:?}", limiter.name());
        assert_eq!(limiter.snapshot().granted_total(), 2);
    }
}

/// Takes all, undoes it after so many milliseconds, and tells what is available then.
fn left_after_undo<R: Rule>(rule: R, millis: u64, taken_by_others: u64) -> u64 {
    let time = ManualClock::new();
    let gate = Gate::builder(rule).clock(time.clock()).build();
    let unused = gate.try_acquire(10).expect("it is full");
    time.advance(Duration::from_millis(millis));
    if taken_by_others > 0 {
        let others = gate.try_acquire(taken_by_others);
        others.expect("time has brought as much").forget();
    }
    unused.undo();
    gate.snapshot().available()
}

#[test]
fn a_window_forgets_what_is_undone_after_it() {
    let quota = Quota::per_second(10);
    //     after ms, others take, left
    for (millis, others, left) in [(0, 0, 10), (999, 0, 10), (1000, 4, 6), (5000, 10, 0)] {
        assert_eq!(
            left_after_undo(FixedWindow::new(quota), millis, others),
            left
        );
        assert_eq!(
            left_after_undo(SlidingWindow::new(quota, 4), millis, others),
            left
        );
    }
}

#[test]
fn a_bucket_gives_back_only_what_time_has_not() {
    let quota = Quota::per_second(10);
    //     after ms, others take, left
    for (millis, others, left) in [(0, 0, 10), (1000, 10, 0), (5000, 10, 0)] {
        let greedy = left_after_undo(TokenBucket::greedy(quota), millis, others);
        let interval = left_after_undo(TokenBucket::interval(quota), millis, others);
        assert_eq!((greedy, interval), (left, left), "{millis} ms");
    }
}

#[test]
fn what_was_taken_before_a_reset_does_not_come_back_after_it() {
    fn left<R: Rule>(rule: R) -> u64 {
        let time = ManualClock::new();
        let gate = Gate::builder(rule).clock(time.clock()).build();
        let before = gate.try_acquire(10).unwrap();
        time.advance(Duration::from_millis(1));
        gate.reset();
        gate.try_acquire(10).unwrap().forget();
        before.undo();
        gate.snapshot().available()
    }
    let quota = Quota::per_second(10);
    let left = [
        left(TokenBucket::greedy(quota)),
        left(TokenBucket::interval(quota)),
        left(FixedWindow::new(quota)),
        left(SlidingWindow::new(quota, 5)),
    ];
    assert_eq!(left, [0; 4]);
}

#[test]
fn undoing_the_parts_of_a_permit_takes_back_one_grant() {
    let gate = Gate::new(Concurrency::new(10));
    let _other = gate.try_acquire(1).unwrap();
    let mut whole = gate.try_acquire(2).unwrap();
    let part = whole.split(1).unwrap();
    whole.undo();
    part.undo();
    assert_eq!(gate.snapshot().granted_total(), 1);
}

/// Waits for one, is granted it a second later, and drops it unread after some more seconds, when
/// others have taken what there is. Tells what is available then.
fn left_after_unread<R: Rule>(rule: R, seconds: u64) -> u64 {
    let time = ManualClock::new();
    let gate = Gate::builder(rule)
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .build();
    gate.take_up_to(1).forget();
    let mut unread = gate.acquire(1);
    assert!(matches!(poll(&mut unread), Poll::Pending));
    time.advance(Duration::from_secs(1 + seconds));
    drop(gate.take_up_to(1));
    drop(unread);
    gate.snapshot().available()
}

#[test]
fn what_was_granted_and_never_read_goes_back() {
    let one = Quota::per_second(1);
    let left = [
        left_after_unread(TokenBucket::greedy(one), 0),
        left_after_unread(TokenBucket::interval(one), 0),
        left_after_unread(FixedWindow::new(one), 0),
        left_after_unread(SlidingWindow::new(one, 2), 0),
        left_after_unread(FixedWindow::new(one), 1),
        left_after_unread(SlidingWindow::new(one, 2), 1),
    ];
    assert_eq!(left, [1, 1, 1, 1, 0, 0]);
}

#[test]
fn what_was_granted_and_never_read_does_not_come_back_twice() {
    let one = Quota::per_second(1);
    let left = [
        left_after_unread(TokenBucket::greedy(one), 1),
        left_after_unread(TokenBucket::interval(one), 1),
    ];
    assert_eq!(left, [0, 0]);
}

#[test]
fn a_log_frees_only_the_entry_of_the_grant_that_is_undone() {
    // Undoing freed the first entries that were not older than the grant, whosever they were: a third
    // and a fourth were let through in one instant.
    let time = ManualClock::new();
    let gate = Gate::builder(SlidingLog::new(Quota::new(2, Duration::from_secs(10))));
    let gate = gate.clock(time.clock()).build();
    let gone = gate.try_acquire(2).unwrap();
    time.advance(Duration::from_secs(10));
    gate.try_acquire(2).unwrap().forget();
    gone.undo();
    assert_eq!(gate.snapshot().available(), 0);
}

#[test]
fn a_log_keeps_the_gap_to_the_entry_before_the_one_that_is_undone() {
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::new(5, Duration::from_secs(10)));
    let gate = Gate::builder(rule.min_gap(Duration::from_secs(2)));
    let gate = gate.clock(time.clock()).build();
    gate.try_acquire(1).unwrap().forget();
    time.advance(Duration::from_secs(2));
    gate.try_acquire(1).unwrap().undo();
    assert!(gate.try_acquire(1).is_ok(), "two seconds after the first");
}

#[test]
fn stored_permits_that_have_been_stored_again_do_not_come_back_a_second_time() {
    // Idling had filled the store by itself when the grant was undone, which then filled it again behind others.
    let time = ManualClock::new();
    let gate = Gate::builder(Smooth::bursty(10.0, Duration::from_secs(1)))
        .clock(time.clock())
        .build();
    time.advance(Duration::from_secs(1));
    let unused = gate.try_acquire(10).unwrap();
    time.advance(Duration::from_secs(1));
    gate.try_acquire(10).unwrap().forget();
    unused.undo();
    // One is let through whatever is stored; the next has to wait.
    gate.try_acquire(1).unwrap().forget();
    assert!(gate.try_acquire(1).is_err());
}
