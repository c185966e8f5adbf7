//! How long a waiter is willing to wait.

use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::queues::{second, slots, woken};
use crate::waiter::Waiter;
use plimsoll::{Demand, Gate, ManualClock, Moment, Queue, Reason, TokenBucket};

#[test]
fn a_deadline_is_met_until_it_has_passed() {
    let deadline = Moment::ORIGIN.plus(second(2));
    let ways: [fn(Demand, Moment) -> Demand; 2] = [
        |demand, deadline| demand.until(deadline),
        |demand, deadline| demand.within(deadline.since(Moment::ORIGIN)),
    ];
    for way in ways {
        let time = ManualClock::new();
        let gate = slots(1, Queue::fifo(2), &time);
        let held = gate.try_acquire(1).unwrap();
        let mut waiters = [(); 2].map(|()| Waiter::new(gate.acquire(way(Demand::ONE, deadline))));
        time.advance_to(deadline);
        assert_eq!(woken(&waiters), [0, 0]);
        drop(held);
        assert_eq!(woken(&waiters), [1, 0]);
        time.advance(Duration::from_nanos(1));
        assert_eq!(woken(&waiters), [1, 1]);
        assert!(matches!(waiters[0].look(), Poll::Ready(Ok(_))));
        assert!(matches!(
            waiters[1].look(),
            Poll::Ready(Err(Reason::TimedOut))
        ));
    }
}

#[test]
fn a_turn_known_to_come_too_late_is_refused_at_once() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(10))
        .clock(time.clock())
        .build();
    gate.try_acquire(1).unwrap().forget();
    let _first = Waiter::new(gate.acquire(1));
    //               the second in line is served at 2s
    for (until, waits) in [(0, false), (1, false), (2, true)] {
        let demand = Demand::ONE.until(Moment::ORIGIN.plus(second(until)));
        let mut future = gate.acquire(demand);
        match poll(&mut future) {
            Poll::Pending => assert!(waits, "{until}"),
            Poll::Ready(answer) => {
                let denied = answer.unwrap_err();
                assert!(!waits, "{until}");
                assert_eq!(denied.reason(), Reason::TimedOut);
                assert_eq!(denied.retry_after(), Some(second(2)));
            }
        }
    }
}

#[test]
fn of_the_queues_timeout_and_ones_own_the_shorter_counts() {
    //      the queue's, one's own, seconds after which it is refused
    for (queue, own, until) in [(3, None, 3), (3, Some(5), 3), (5, Some(3), 3)] {
        let time = ManualClock::new();
        let gate = slots(1, Queue::fifo(1).timeout(second(queue)), &time);
        let _held = gate.try_acquire(1).unwrap();
        let demand = own.map_or(Demand::ONE, |own| Demand::ONE.within(second(own)));
        let waiter = Waiter::new(gate.acquire(demand));
        time.advance(second(until));
        assert_eq!(waiter.woken(), 0);
        time.advance(Duration::from_nanos(1));
        assert_eq!(waiter.woken(), 1);
    }
}

#[test]
fn one_that_gives_up_lets_those_behind_it_run() {
    let time = ManualClock::new();
    let gate = slots(3, Queue::fifo(9), &time);
    let _held = gate.try_acquire(2).unwrap();
    let large = Waiter::new(gate.acquire(Demand::of(2).within(second(1))));
    let small = Waiter::new(gate.acquire(1));
    time.advance(second(1) + Duration::from_nanos(1));
    assert_eq!((large.woken(), small.woken()), (1, 1));
    assert_eq!(gate.snapshot().in_use(), 3);
}

#[test]
fn a_deadline_beyond_all_time_is_none() {
    let time = ManualClock::new();
    let gate = slots(1, Queue::fifo(1).timeout(Duration::MAX), &time);
    let _held = gate.try_acquire(1).unwrap();
    let waiter = Waiter::new(gate.acquire(Demand::ONE.within(Duration::MAX)));
    time.advance(second(1 << 33));
    assert_eq!(waiter.woken(), 0);
}

#[test]
fn a_deadline_in_the_past_is_refused_at_once() {
    let time = ManualClock::starting_at(Moment::from_nanos(10));
    let gate = slots(1, Queue::fifo(1), &time);
    let _held = gate.try_acquire(1).unwrap();
    let mut late = gate.acquire(Demand::ONE.until(Moment::from_nanos(9)));
    assert!(matches!(poll(&mut late), Poll::Ready(Err(_))));
}
