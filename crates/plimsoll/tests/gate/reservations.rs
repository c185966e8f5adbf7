//! Taken now, used later: when, and what comes back when it is not.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::rules;
use plimsoll::{
    All, Concurrency, Demand, FixedWindow, Gate, Limiter, ManualClock, Moment, Permit, Queue,
    Quota, Reason, Reservation, Rule, SlidingWindow, TokenBucket,
};

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    Gate::builder(rule).clock(time.clock()).build()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn waits(reservations: &[Reservation<'_>]) -> Vec<Option<u64>> {
    let waits = reservations.iter().map(Reservation::wait);
    waits.map(|wait| wait.map(|wait| wait.as_secs())).collect()
}

/// A bucket of 5 that gains one a second.
const FIVE: TokenBucket = TokenBucket::per_second(1).burst(5);

#[test]
fn a_bucket_goes_into_debt_and_says_when_it_is_paid() {
    let time = ManualClock::new();
    let gate = gate(FIVE, &time);
    let reserved = [5, 5, 2, 1].map(|cost| gate.reserve(cost).unwrap());
    assert_eq!(waits(&reserved), [Some(0), Some(5), Some(7), Some(8)]);
    let snapshot = gate.snapshot();
    assert_eq!((snapshot.available(), snapshot.in_use()), (0, 13));
    let denied = gate.try_acquire(1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(seconds(9)));
    assert_eq!(gate.reserve(6).unwrap_err().reason(), Reason::TooLarge);
    time.advance(seconds(9));
    assert_eq!(gate.snapshot().available(), 1);
}

#[test]
fn what_comes_back_is_what_nobody_later_was_put_behind() {
    //  reserved costs, cancelled (which, at s), when one more may be used
    type Case = (&'static [u64], &'static [(usize, u64)], u64);
    let cases: [Case; 10] = [
        (&[5, 5, 2], &[], 8),
        // The newest gives back all of it.
        (&[5, 5, 2], &[(2, 0)], 6),
        // The one before it, less what stands behind it.
        (&[5, 5, 2], &[(1, 0)], 5),
        // One that did not have to wait, less all that did.
        (&[5, 5, 2], &[(0, 0)], 8),
        (&[5, 2, 1], &[(0, 0)], 2),
        // At its time still, afterwards no more.
        (&[5, 5, 2], &[(1, 5)], 5),
        (&[5, 5, 2], &[(1, 6)], 8),
        // Newest first gives back everything, oldest first keeps what was kept.
        (&[5, 5, 2], &[(2, 0), (1, 0)], 1),
        (&[5, 5, 2], &[(1, 0), (2, 0)], 3),
        // What was cancelled before the last that stands still counts.
        (&[5, 4, 1, 1], &[(2, 0), (1, 0)], 5),
    ];
    for (costs, cancelled, expected) in cases {
        let time = ManualClock::new();
        let gate = gate(FIVE, &time);
        let mut reserved: Vec<_> = costs.iter().map(|cost| gate.reserve(*cost).ok()).collect();
        for &(which, at) in cancelled {
            time.advance_to(Moment::ORIGIN.plus(seconds(at)));
            drop(reserved[which].take().unwrap());
        }
        let next = gate.reserve(1).unwrap().ready_at();
        let expected = Moment::ORIGIN.plus(seconds(expected));
        assert_eq!(next, Some(expected), "{costs:?} {cancelled:?}");
    }
}

#[test]
fn what_has_been_used_does_not_come_back() {
    let time = ManualClock::new();
    for limiter in rules::rates(Quota::per_second(1), None, &time.clock()) {
        let mut reserved = limiter.reserve(Demand::ONE).unwrap();
        let permit = poll(&mut reserved);
        assert!(matches!(permit, Poll::Ready(Ok(_))), "{:?}", limiter.name());
        drop((permit, reserved));
        assert_eq!(limiter.snapshot().available(), 0, "{:?}", limiter.name());
    }
}

#[test]
fn a_longer_wait_than_is_acceptable_is_refused_and_takes_nothing() {
    let time = ManualClock::new();
    for limiter in rules::rates(Quota::per_second(1), None, &time.clock()) {
        let name = limiter.name();
        let within = |span| limiter.reserve(Demand::ONE.within(span));
        let now = within(Duration::ZERO).unwrap();
        let before = limiter.snapshot();
        within(Duration::from_nanos(999_999_999)).unwrap_err();
        assert_eq!(limiter.snapshot().in_use(), before.in_use(), "{name:?}");
        let later = within(seconds(1)).unwrap();
        assert_eq!(later.wait(), Some(seconds(1)), "{name:?}");
        let deadline = Moment::ORIGIN.plus(seconds(2));
        drop(limiter.reserve(Demand::ONE.until(deadline)).unwrap());
        drop((now, later));
    }
}

#[test]
fn awaiting_it_waits_for_its_time() {
    let time = ManualClock::new();
    for limiter in rules::rates(Quota::per_second(1), None, &time.clock()) {
        let start = time.now();
        limiter
            .reserve(Demand::ONE)
            .unwrap()
            .wait_blocking()
            .unwrap()
            .forget();
        let mut reserved = limiter.reserve(Demand::ONE).unwrap();
        assert!(poll(&mut reserved).is_pending(), "{:?}", limiter.name());
        time.advance(Duration::from_nanos(999_999_999));
        assert!(poll(&mut reserved).is_pending(), "{:?}", limiter.name());
        time.advance(Duration::from_nanos(1));
        let Poll::Ready(Ok(permit)) = poll(&mut reserved) else {
            panic!("its time has come");
        };
        assert_eq!(permit.granted_at(), start.plus(seconds(1)));
        assert!(matches!(poll(&mut reserved), Poll::Ready(Err(_))));
        drop(permit);
        time.advance(seconds(1));
    }
}

#[test]
fn a_window_holds_the_place_before_all_who_come_later() {
    let time = ManualClock::new();
    let quota = Quota::per_second(2);
    let limiters: [Arc<dyn Limiter>; 2] = [
        Arc::new(gate(FixedWindow::new(quota), &time)),
        Arc::new(gate(SlidingWindow::new(quota, 1), &time)),
    ];
    for gate in limiters {
        let start = time.now();
        gate.try_acquire(Demand::of(2)).unwrap().forget();
        // Nobody may wait here, but a place can be held.
        let mut reserved: Vec<_> = [1, 2, 1]
            .map(|cost| gate.reserve(Demand::of(cost)).unwrap())
            .into();
        assert_eq!(waits(&reserved), [Some(1), Some(2), Some(3)]);
        let denied = gate.try_acquire(Demand::ONE).unwrap_err();
        assert_eq!(denied.retry_after(), Some(seconds(3)));
        time.advance(seconds(1));
        // There is one left, and it is not for who comes now.
        assert_eq!(gate.snapshot().available(), 1);
        gate.try_acquire(Demand::ONE).unwrap_err();
        drop(reserved.remove(1));
        let Poll::Ready(Ok(permit)) = poll(&mut reserved[1]) else {
            panic!("the one before it has left");
        };
        assert_eq!(permit.granted_at(), start.plus(seconds(1)));
        drop((permit, reserved));
        time.advance(seconds(4));
    }
}

#[test]
fn a_place_that_is_given_up_at_its_time_comes_back_and_later_does_not() {
    //  given up after so many seconds, what is available then
    for (after, available) in [(0, 0), (1, 2), (2, 2)] {
        let time = ManualClock::new();
        let gate = gate(FixedWindow::new(Quota::per_second(2)), &time);
        gate.try_acquire(2).unwrap().forget();
        let reserved = gate.reserve(1).unwrap();
        time.advance(seconds(after));
        drop(reserved);
        assert_eq!(gate.snapshot().available(), available, "{after}");
    }
    let time = ManualClock::new();
    let gate = gate(FixedWindow::new(Quota::per_second(2)), &time);
    gate.try_acquire(2).unwrap().forget();
    let reserved = gate.reserve(1).unwrap();
    time.advance(seconds(1) + Duration::from_nanos(1));
    drop(reserved);
    assert_eq!(gate.snapshot().available(), 1);
}

#[test]
fn concurrency_joins_the_queue() {
    let time = ManualClock::new();
    let without = gate(Concurrency::new(1), &time);
    let _held = without.reserve(1).unwrap();
    assert_eq!(without.reserve(1).unwrap_err().reason(), Reason::Exhausted);

    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(2))
        .clock(time.clock())
        .build();
    let held = gate.try_acquire(1).unwrap();
    let mut reserved = [(); 2].map(|()| gate.reserve(1).unwrap());
    assert_eq!(waits(&reserved), [None, None]);
    assert_eq!(gate.reserve(1).unwrap_err().reason(), Reason::QueueFull);
    assert!(poll(&mut reserved[0]).is_pending());
    assert_eq!(gate.snapshot().waiters(), 2);
    drop(held);
    let [first, mut second] = reserved;
    assert!(poll(&mut second).is_pending());
    // Given up with its permit unread, long after it was granted.
    time.advance(seconds(10));
    drop(first);
    assert!(matches!(poll(&mut second), Poll::Ready(Ok(_))));
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn closing_refuses_who_holds_a_place() {
    let time = ManualClock::new();
    let slots = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(2));
    let slots: Arc<dyn Limiter> = Arc::new(slots.clock(time.clock()).build());
    let window = Arc::new(gate(FixedWindow::new(Quota::per_second(1)), &time));
    for gate in [slots, window] {
        let _held = gate.try_acquire(Demand::ONE).unwrap();
        let mut reserved = gate.reserve(Demand::ONE).unwrap();
        gate.close();
        let Poll::Ready(Err(denied)) = poll(&mut reserved) else {
            panic!("it is closed");
        };
        assert_eq!(denied.reason(), Reason::Closed);
        assert_eq!(
            gate.reserve(Demand::ONE).unwrap_err().reason(),
            Reason::Closed
        );
    }
}

#[test]
fn all_are_reserved_for_the_latest_or_none_is() {
    let time = ManualClock::new();
    let bucket = |seconds| {
        let quota = Quota::new(1, Duration::from_secs(seconds));
        Arc::new(gate(TokenBucket::greedy(quota), &time))
    };
    let (fast, slow) = (bucket(1), bucket(5));
    let all = All::new([fast.clone() as Arc<dyn Limiter>, slow.clone()]);
    drop(all.reserve(Demand::ONE).unwrap());
    assert_eq!(
        (fast.snapshot().available(), slow.snapshot().available()),
        (1, 1)
    );
    slow.try_acquire(1).unwrap().forget();
    all.reserve(Demand::ONE.within(seconds(4))).unwrap_err();
    assert_eq!(fast.snapshot().available(), 1);
    let mut reserved = all.reserve(Demand::ONE).unwrap();
    assert_eq!(reserved.wait(), Some(seconds(5)));
    assert!(poll(&mut reserved).is_pending());
    time.advance(seconds(5));
    let permit = match poll(&mut reserved) {
        Poll::Ready(permit) => permit.unwrap(),
        Poll::Pending => panic!("its time has come"),
    };
    assert_eq!(permit.granted_at(), Moment::ORIGIN.plus(seconds(5)));
    assert_eq!(slow.snapshot().available(), 0);
}

#[test]
fn all_come_back_when_their_reservation_is_dropped_before_its_time() {
    let time = ManualClock::new();
    let fast = Arc::new(gate(TokenBucket::per_second(1), &time));
    let slow = Arc::new(gate(TokenBucket::per_second(1).initial(0), &time));
    let all = All::new([fast.clone() as Arc<dyn Limiter>, slow]);
    let mut reserved = all.reserve(Demand::ONE).unwrap();
    assert!(poll(&mut reserved).is_pending());
    drop(reserved);
    assert_eq!(fast.snapshot().available(), 1);
}

#[test]
fn what_was_reserved_before_a_reset_does_not_come_back_after_it() {
    let time = ManualClock::new();
    let gate = gate(FIVE, &time);
    let _first = gate.reserve(5).unwrap();
    let second = gate.reserve(5).unwrap();
    gate.reset();
    gate.try_acquire(5).map(Permit::forget).unwrap();
    drop(second);
    assert_eq!(gate.snapshot().available(), 0);
}
