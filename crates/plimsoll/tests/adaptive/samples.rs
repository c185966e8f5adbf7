//! What an algorithm is told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{Clock, Demand, Gate, Limiter, ManualClock, Moment, Outcome, Permit, Queue, Reason};

use crate::MS;
use crate::poll::poll;
use crate::scripted::{Scripted, millis, take};
use crate::waiter::Waiter;

#[test]
fn success_and_overload_are_learned_from_and_nothing_else() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(10);
    let gate = algorithm.gate(&time);
    gate.try_acquire(1).unwrap().finish(Outcome::Success);
    gate.try_acquire(1).unwrap().finish(Outcome::Overload);
    let heard: Vec<_> = algorithm.heard().iter().map(|s| s.overload).collect();
    assert_eq!(heard, [false, true]);

    gate.try_acquire(1).unwrap().finish(Outcome::Ignore);
    drop(gate.try_acquire(1).unwrap());
    gate.try_acquire(1).unwrap().undo();
    drop(gate.reserve(1).unwrap());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = gate.try_acquire(1).unwrap();
        panic!("the work failed");
    }));
    assert!(panicked.is_err());
    // Cancelled before it is polled, while it waits, and when it was granted something and has not seen it.
    drop(gate.acquire(1));
    let held = gate.try_acquire(10).unwrap();
    drop(Waiter::new(gate.acquire(1)));
    let granted = Waiter::new(gate.acquire(1));
    drop(held);
    drop(granted);
    assert_eq!(algorithm.heard(), []);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_sample_tells_how_long_it_took_and_how_much_was_in_flight() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(10);
    let gate = algorithm.gate(&time);
    let large = gate.try_acquire(4).unwrap();
    time.advance(MS);
    let small = gate.try_acquire(1).unwrap();
    time.advance(2 * MS);
    large.finish(Outcome::Success);
    time.advance(5 * MS);
    small.finish(Outcome::Success);
    let told: Vec<_> = algorithm
        .heard()
        .iter()
        .map(|s| (millis(s.start), millis(s.end), s.latency(), s.in_flight))
        .collect();
    assert_eq!(told, [(0, 3, 3 * MS, 5), (1, 8, 7 * MS, 1)]);
}

#[test]
fn time_in_the_queue_is_not_part_of_the_latency() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(1);
    let gate = algorithm.gate(&time);
    let held = gate.try_acquire(1).unwrap();
    let mut waiter = Waiter::new(gate.acquire(1));
    time.advance(50 * MS);
    held.finish(Outcome::Success);
    let Poll::Ready(Ok(permit)) = waiter.look() else {
        panic!("its turn has come");
    };
    time.advance(7 * MS);
    permit.finish(Outcome::Success);
    let told: Vec<_> = algorithm
        .heard()
        .iter()
        .map(|s| (s.latency(), s.in_flight))
        .collect();
    assert_eq!(told, [(50 * MS, 1), (7 * MS, 1)]);
}

#[test]
fn a_refusal_is_told_with_the_next_sample_and_once() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(2);
    let gate = algorithm.builder(&time).queue(Queue::fifo(0)).build();
    let finish_both = || {
        let permits = take(&gate, 2);
        permits.into_iter().for_each(|p| p.finish(Outcome::Success));
        let heard: Vec<_> = algorithm.heard().iter().map(|s| s.refused).collect();
        heard
    };
    assert_eq!(finish_both(), [false, false]);
    let held = take(&gate, 2);
    assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::Exhausted);
    drop(held);
    assert_eq!(finish_both(), [true, false]);

    // By the queue, for a part, of a reservation.
    let held = take(&gate, 1);
    let Poll::Ready(Err(full)) = poll(&mut gate.acquire(2)) else {
        panic!("nobody may wait");
    };
    assert_eq!(full.reason(), Reason::QueueFull);
    drop(held);
    assert_eq!(finish_both(), [true, false]);
    let held = take(&gate, 1);
    gate.try_acquire(2).unwrap_err();
    drop(held);
    assert_eq!(finish_both(), [true, false]);
    let held = take(&gate, 2);
    gate.reserve(1).unwrap_err();
    drop(held);
    assert_eq!(finish_both(), [true, false]);

    // A larger limit would not have helped; asking is not being refused.
    gate.try_acquire(3).unwrap_err();
    let held = take(&gate, 2);
    gate.estimate(1).unwrap_err();
    drop(held);
    assert_eq!(finish_both(), [false, false]);
}

#[test]
fn who_is_refused_while_waiting_is_told_too() {
    let time = ManualClock::new();
    let algorithm = Scripted::new(1);
    let gate = algorithm.builder(&time).queue(Queue::lifo(1)).build();
    let refused = |gate: &Gate<Adaptive<Scripted>>, held: Permit<'_>| {
        held.finish(Outcome::Ignore);
        gate.try_acquire(1).unwrap().finish(Outcome::Success);
        algorithm.heard()[0].refused
    };
    let held = gate.try_acquire(1).unwrap();
    let mut late = Waiter::new(gate.acquire(Demand::ONE.within(MS)));
    time.advance(2 * MS);
    assert!(matches!(late.look(), Poll::Ready(Err(Reason::TimedOut))));
    assert!(refused(&gate, held));

    let held = gate.try_acquire(1).unwrap();
    let mut old = Waiter::new(gate.acquire(1));
    let young = Waiter::new(gate.acquire(1));
    assert!(matches!(old.look(), Poll::Ready(Err(Reason::Evicted))));
    drop(young);
    assert!(refused(&gate, held));
}

#[test]
fn ticks_come_with_traffic_and_missed_ones_are_made_up_for() {
    let time = ManualClock::new();
    let algorithm = Scripted::ticking(2, Some(100 * MS));
    let gate = algorithm.gate(&time);
    let finish = || gate.try_acquire(1).unwrap().finish(Outcome::Success);
    let advance_to = |millis: u64| time.advance_to(Moment::from_nanos(millis * 1_000_000));
    advance_to(99);
    finish();
    assert_eq!(algorithm.ticks(), []);
    advance_to(100);
    finish();
    assert_eq!(algorithm.ticks(), [(100, 1, 0)]);
    advance_to(350);
    finish();
    assert_eq!(algorithm.ticks(), [(200, 1, 0), (300, 1, 0)]);
    // An hour later: the last few, and no more.
    advance_to(3_600_050);
    finish();
    let made_up: Vec<_> = (0..8).map(|i| (3_599_300 + 100 * i, 1, 0)).collect();
    assert_eq!(algorithm.ticks(), made_up);
    // While nothing ends, refusals tell the time.
    let held = take(&gate, 2);
    let _waiter = Waiter::new(gate.acquire(1));
    advance_to(3_600_120);
    assert!(gate.try_acquire(1).is_err());
    assert_eq!(algorithm.ticks(), [(3_600_100, 2, 1)]);
    // What a permit says that gives back while others wait.
    advance_to(3_600_200);
    algorithm.say(7);
    held.into_iter()
        .for_each(|permit| permit.finish(Outcome::Success));
    assert_eq!(algorithm.ticks(), [(3_600_200, 2, 1)]);
    algorithm.say(3);
    advance_to(3_600_300);
    let _held = gate.try_acquire(6).unwrap();
    assert!(gate.try_acquire(1).is_err());
    assert_eq!(algorithm.ticks(), [(3_600_300, 7, 0)]);
    assert_eq!(gate.snapshot().limit(), 3, "a tick can change the limit");
}

/// Sums up for how much work its samples stand.
#[derive(Debug)]
struct Weighed(Arc<AtomicU64>);

impl Limit for Weighed {
    fn limit(&self) -> u64 {
        10
    }

    fn sample(&mut self, sample: &Sample) {
        self.0.fetch_add(u64::from(sample.weight), Relaxed);
    }
}

#[test]
fn where_not_all_work_is_timed_samples_stand_for_no_more_than_there_was() {
    let weight = Arc::new(AtomicU64::new(0));
    // On the machine's own clock: only there is so much granted that not all is timed.
    let gate = Gate::new(Adaptive::new(Weighed(Arc::clone(&weight))));
    for _ in 0..100_000 {
        gate.try_acquire(1).unwrap().finish(Outcome::Success);
    }
    let weighed = weight.load(Relaxed);
    assert!((16..=100_000).contains(&weighed), "{weighed}");

    // On a clock that somebody drives all of it is.
    weight.store(0, Relaxed);
    let gate = Gate::builder(Adaptive::new(Weighed(Arc::clone(&weight))))
        .clock(ManualClock::new().clock())
        .build();
    for _ in 0..1000 {
        gate.try_acquire(1).unwrap().finish(Outcome::Success);
    }
    assert_eq!(weight.load(Relaxed), 1000);
}

#[test]
fn work_that_is_granted_behind_the_lock_is_timed_from_when_it_began() {
    // Beyond so much in a tick of the machine's clock only the tick is read, which may be a millisecond ago. Work
    // that was then granted behind the lock taught as if that had been measured.
    let algorithm = Scripted::new(10);
    let gate = Gate::builder(Adaptive::new(algorithm.clone()));
    let gate = gate.queue(Queue::lifo(20)).clock(Clock::precise()).build();
    let held = gate.try_acquire(5).unwrap();
    // While it waits every decision takes the lock, and newcomers that fit pass.
    let waiting = Waiter::new(gate.acquire(9));
    for _ in 0..500 {
        let before = gate.clock().now();
        gate.try_acquire(1).unwrap().finish(Outcome::Success);
        for sample in algorithm.heard() {
            assert!(sample.start >= before, "{sample:?} before {before:?}");
        }
    }
    drop((waiting, held));
}
