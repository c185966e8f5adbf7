//! A reset makes good what was granted before it, and nothing that was granted after it.

use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use plimsoll::{
    Bandwidths, Batched, Carry, FixedWindow, Gate, LimiterExt, ManualClock, Quota, Refresh, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};

const LIMIT: u64 = 10;

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    Gate::builder(rule)
        .queue(plimsoll::Queue::fifo(100))
        .clock(time.clock())
        .build()
}

/// Runs a test on each rate.
macro_rules! on_each_rate {
    ($test:ident) => {
        let quota = Quota::per_second(LIMIT);
        $test(&TokenBucket::greedy(quota));
        $test(&TokenBucket::interval(quota));
        $test(&FixedWindow::new(quota));
        $test(&SlidingWindow::new(quota, 5));
        $test(&SlidingCounter::new(quota));
        $test(&SlidingLog::new(quota));
        $test(&Bandwidths::new([TokenBucket::greedy(quota)]));
        $test(&plimsoll::PenaltyBucket::new(TokenBucket::greedy(quota)));
        $test(&Refresh::new(quota).max_wait(Duration::from_secs(60)));
    };
}

/// How a permit is taken. On the first way the state may be in the word.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Try,
    Attempt,
    Acquire,
    UpTo,
    Reserve,
}

const WAYS: [Way; 5] = [
    Way::Try,
    Way::Attempt,
    Way::Acquire,
    Way::UpTo,
    Way::Reserve,
];

fn take<R: Rule>(gate: &Gate<R>, cost: u64, way: Way) -> plimsoll::Permit<'_> {
    match way {
        Way::Try => gate.try_acquire(cost).expect("there is room"),
        Way::Attempt => LimiterExt::attempt(gate, cost.into()).expect("there is room"),
        Way::Acquire => match poll(&mut gate.acquire(cost)) {
            Poll::Ready(permit) => permit.expect("there is room"),
            Poll::Pending => panic!("there is room"),
        },
        Way::UpTo => gate.take_up_to(cost),
        Way::Reserve => match poll(&mut gate.reserve(cost).expect("there is room")) {
            Poll::Ready(permit) => permit.expect("there is room"),
            Poll::Pending => panic!("there is room"),
        },
    }
}

/// Moments were compared, and a grant in the instant of a reset always counted as made before it.
#[test]
fn what_was_granted_after_a_reset_in_its_instant_is_undone() {
    fn test<R: Rule + Clone>(rule: &R) {
        for way in WAYS {
            for resets in [1, 2, 3] {
                let time = ManualClock::new();
                let gate = gate(rule.clone(), &time);
                time.advance(Duration::from_millis(7));
                let before = take(&gate, 3, way);
                let mut between = Vec::new();
                for _ in 1..resets {
                    gate.reset();
                    between.push(take(&gate, 2, way));
                }
                gate.reset();
                let other = take(&gate, 5, way);
                let after = take(&gate, 4, way);
                before.undo();
                between.into_iter().for_each(plimsoll::Permit::undo);
                assert_eq!(gate.snapshot().available(), 1, "{rule:?} {way:?} {resets}");
                after.undo();
                assert_eq!(gate.snapshot().available(), 5, "{rule:?} {way:?} {resets}");
                // Also if others come in between, and it is undone later.
                let later = take(&gate, 1, way);
                time.advance(Duration::from_nanos(1));
                later.undo();
                other.forget();
                assert_eq!(gate.snapshot().available(), 5, "{rule:?} {way:?} {resets}");
            }
        }
    }
    on_each_rate!(test);
}

/// A waiter served by the reset itself is granted after it.
#[test]
fn what_a_reset_grants_to_a_waiter_is_undone() {
    fn test<R: Rule + Clone>(rule: &R) {
        let time = ManualClock::new();
        let gate = gate(rule.clone(), &time);
        let before = gate.try_acquire(LIMIT).unwrap();
        let mut waiting = gate.acquire(4);
        assert!(poll(&mut waiting).is_pending());
        let mut unread = gate.acquire(3);
        assert!(poll(&mut unread).is_pending());
        gate.reset();
        let Poll::Ready(Ok(served)) = poll(&mut waiting) else {
            panic!("the reset has made room");
        };
        before.undo();
        assert_eq!(gate.snapshot().available(), 3);
        served.undo();
        assert_eq!(gate.snapshot().available(), 7);
        drop(unread);
        assert_eq!(gate.snapshot().available(), 10);
    }
    on_each_rate!(test);
}

/// What was granted to a waiter that has not looked yet came back although a reset had made it good.
#[test]
fn what_was_granted_before_a_reset_and_never_read_does_not_come_back() {
    fn test<R: Rule + Clone>(rule: &R) {
        for reserved in [false, true] {
            let time = ManualClock::new();
            let gate = gate(rule.clone(), &time);
            let all = gate.try_acquire(LIMIT).unwrap();
            let mut waiting = gate.acquire(4);
            assert!(poll(&mut waiting).is_pending());
            let place = reserved.then(|| gate.reserve(3).unwrap());
            all.undo();
            gate.reset();
            gate.try_acquire(6).unwrap().forget();
            drop(waiting);
            place.into_iter().for_each(plimsoll::Reservation::undo);
            assert_eq!(gate.snapshot().available(), 4, "{rule:?} {reserved}");
        }
    }
    on_each_rate!(test);
}

/// A reservation carries the moment it is ready at, which may lie after a reset that has made it good.
#[test]
fn what_was_reserved_before_a_reset_and_used_after_it_does_not_come_back() {
    fn test<R: Rule + Clone>(rule: &R) {
        let time = ManualClock::new();
        let gate = gate(rule.clone(), &time);
        gate.try_acquire(LIMIT).unwrap().forget();
        let mut later = gate.reserve(5).unwrap();
        let ready_at = later.ready_at().unwrap();
        gate.reset();
        time.advance_to(ready_at);
        let Poll::Ready(Ok(permit)) = poll(&mut later) else {
            panic!("its time has come");
        };
        gate.take_up_to(LIMIT).forget();
        let granted_after_reset = permit.granted_at() < ready_at;
        permit.undo();
        // What holds a place in the queue was granted by the reset; a debt was made good by it.
        let expected = if granted_after_reset { 5 } else { 0 };
        assert!(gate.snapshot().available() <= expected, "{rule:?}");
    }
    on_each_rate!(test);
}

/// Whoever reserves in the instant of a reset may look only later.
#[test]
fn what_was_reserved_after_a_reset_is_undone_later() {
    fn test<R: Rule + Clone>(rule: &R) {
        let time = ManualClock::new();
        let gate = gate(rule.clone(), &time);
        gate.reset();
        let (mut one, mut other) = (gate.reserve(2).unwrap(), gate.reserve(3).unwrap());
        time.advance(Duration::from_nanos(1));
        drop(gate.try_acquire(1).unwrap());
        for (reserved, left) in [(&mut other, 7), (&mut one, 9)] {
            match poll(reserved) {
                Poll::Ready(permit) => permit.unwrap().undo(),
                Poll::Pending => panic!("its time has come"),
            }
            assert_eq!(gate.snapshot().available(), left, "{rule:?}");
        }
    }
    let quota = Quota::per_second(LIMIT);
    // Of buckets only those that are filled in whole steps, so that a nanosecond brings nothing.
    test(&TokenBucket::interval(quota));
    test(&Bandwidths::new([TokenBucket::interval(quota)]));
    test(&Refresh::new(quota));
    test(&FixedWindow::new(quota));
    test(&SlidingLog::new(quota));
}

/// From the next instant on nothing is different.
#[test]
fn a_reset_is_over_when_its_instant_is() {
    fn test<R: Rule + Clone>(rule: &R) {
        let time = ManualClock::new();
        let gate = gate(rule.clone(), &time);
        gate.reset();
        for _ in 0..3 {
            time.advance(Duration::from_nanos(1));
            let permit = gate.try_acquire(LIMIT).unwrap();
            permit.undo();
            assert_eq!(gate.snapshot().available(), 10);
        }
    }
    on_each_rate!(test);
}

/// Replacing a limit by one that starts anew is a reset too.
#[test]
fn what_was_granted_before_a_limit_started_anew_does_not_come_back() {
    fn test<R: Rule + Clone>(rule: &R) {
        let time = ManualClock::new();
        let gate = gate(rule.clone(), &time);
        let before = gate.try_acquire(LIMIT).unwrap();
        gate.replace(rule.clone(), Carry::Reset);
        let after = gate.try_acquire(4).unwrap();
        gate.try_acquire(6).unwrap().forget();
        before.undo();
        assert_eq!(gate.snapshot().available(), 0);
        after.undo();
        assert_eq!(gate.snapshot().available(), 4);
    }
    on_each_rate!(test);
}

/// The permits of a batch were stamped with the moment they were spent at, not with that of the batch.
#[test]
fn what_was_spent_from_a_batch_goes_back_to_where_the_batch_was_recorded() {
    fn test<R: Rule + Clone>(rule: &R) {
        let time = ManualClock::new();
        let gate = gate(rule.clone(), &time);
        gate.reset();
        let batched = Batched::new(gate.clone(), 4);
        let first = batched.try_acquire(1).unwrap();
        let second = batched.try_acquire(2).unwrap();
        time.advance(Duration::from_millis(3));
        let third = batched.try_acquire(1).unwrap();
        assert_eq!(third.granted_at(), first.granted_at());
        third.undo();
        second.undo();
        first.undo();
        batched.return_stock();
        let seen = batched.snapshot();
        assert_eq!(
            (seen.available(), seen.granted_total()),
            (10, 0),
            "{rule:?}"
        );

        let before = batched.try_acquire(1).unwrap();
        gate.reset();
        gate.take_up_to(LIMIT).forget();
        before.undo();
        batched.return_stock();
        assert_eq!(gate.snapshot().available(), 0, "{rule:?}");
    }
    // What a bucket has got back meanwhile it cannot tell from what it would have had no room for.
    let quota = Quota::per_second(LIMIT);
    test(&FixedWindow::new(quota));
    test(&SlidingWindow::new(quota, 500));
    test(&SlidingCounter::new(quota));
    test(&SlidingLog::new(quota));
}
