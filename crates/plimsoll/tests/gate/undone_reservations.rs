//! A reservation that is undone was never made, however late that is known.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use plimsoll::{
    All, Bandwidths, Concurrency, Demand, FixedWindow, Gate, Limiter, ManualClock, Partitions,
    Permit, Queue, Quota, Refresh, Reservation, Rule, SlidingCounter, SlidingLog, SlidingWindow,
    TokenBucket,
};

const LIMIT: u64 = 10;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn gate<R: Rule>(name: &str, rule: R, time: &ManualClock) -> Arc<dyn Limiter> {
    let builder = Gate::builder(rule).queue(Queue::fifo(100)).name(name);
    Arc::new(builder.clock(time.clock()).build())
}

/// Limits of 10 an hour or 10 at once, so that time brings next to nothing back.
fn limiters(time: &ManualClock) -> Vec<Arc<dyn Limiter>> {
    let quota = Quota::new(LIMIT, seconds(3600));
    let slots = Gate::builder(Concurrency::new(LIMIT)).queue(Queue::fifo(100));
    let parts =
        Partitions::try_new(slots.clock(time.clock()).build(), [("all", 1)]).expect("a partition");
    let log = || gate("log", SlidingLog::new(quota), time);
    let window = || gate("window", FixedWindow::new(quota), time);
    vec![
        gate("greedy", TokenBucket::greedy(quota), time),
        gate("interval", TokenBucket::interval(quota), time),
        gate(
            "bandwidths",
            Bandwidths::new([TokenBucket::interval(quota)]),
            time,
        ),
        gate(
            "refresh",
            Refresh::new(quota).max_wait(seconds(36_000)),
            time,
        ),
        gate("sliding", SlidingWindow::new(quota, 4), time),
        gate("counter", SlidingCounter::new(quota), time),
        gate("slots", Concurrency::new(LIMIT), time),
        Arc::new(parts.get("all").expect("it is there")),
        Arc::new(All::new([log(), window()]).with_name("all")),
        log(),
        window(),
    ]
}

fn available(limiter: &dyn Limiter) -> u64 {
    limiter.snapshot().available()
}

/// What was taken at once came back only in the same instant; all-or-none over several limiters needs longer than that.
#[test]
fn what_was_taken_at_once_comes_back_later() {
    for passed in [Duration::ZERO, Duration::from_nanos(1), seconds(60)] {
        let time = ManualClock::new();
        for limiter in limiters(&time) {
            let name = limiter.name();
            let before = available(&*limiter);
            let other = limiter.try_acquire(Demand::of(3)).unwrap();
            let reserved = limiter.reserve(Demand::of(5)).unwrap();
            assert_eq!(reserved.wait(), Some(Duration::ZERO), "{name:?}");
            time.advance(passed);
            reserved.undo();
            // A greedy bucket cannot tell what has come from what would have found no room.
            let left = available(&*limiter);
            let lost = u64::from(name == Some("greedy") && passed > Duration::ZERO);
            assert!(
                left + lost >= before - 3 && left <= before - 3,
                "{name:?} {passed:?} {left}"
            );
            other.forget();
        }
    }
}

/// The same of what has to wait: before its time, at its time and after it, used or not.
#[test]
fn what_had_to_wait_comes_back_before_and_after_its_time() {
    for offset in [-1, 0, 1] {
        for used in [false, true] {
            let time = ManualClock::new();
            for limiter in limiters(&time) {
                let name = limiter.name();
                let all = limiter.try_acquire(Demand::of(LIMIT)).unwrap();
                let Ok(mut later) = limiter.reserve(Demand::of(4)) else {
                    // Nobody waits for more than a partition may have.
                    assert_eq!(name, Some("all"));
                    continue;
                };
                match later.ready_at() {
                    Some(at) if offset < 0 => {
                        time.advance_to(plimsoll::Moment::from_nanos(at.as_nanos() - 1))
                    }
                    Some(at) if offset > 0 => time.advance_to(at.plus_nanos(1)),
                    Some(at) => time.advance_to(at),
                    None => all.undo(),
                }
                let without = limiter.snapshot().available() + 4;
                match poll_if(used && offset >= 0, &mut later) {
                    Some(permit) => {
                        permit.undo();
                        drop(later);
                    }
                    None => later.undo(),
                }
                let left = available(&*limiter);
                // Before its time a debt is below what `available` can tell.
                let owing = offset < 0 && left < without;
                let greedy = name == Some("greedy") && offset > 0 && left + 1 == without;
                assert!(
                    left == without || owing || greedy,
                    "{name:?} {offset} {used} {left} {without}"
                );
                assert!(left <= without, "{name:?}");
                // Once the clock has moved on nothing of it is left anywhere.
                time.advance(seconds(7200));
                if name != Some("slots") && name != Some("all") {
                    assert_eq!(limiter.snapshot().in_use(), 0, "{name:?}");
                }
                assert_eq!(limiter.snapshot().waiters(), 0, "{name:?}");
            }
        }
    }
}

fn poll_if<'a>(wanted: bool, reservation: &mut Reservation<'a>) -> Option<Permit<'a>> {
    if !wanted {
        return None;
    }
    match poll(reservation) {
        Poll::Ready(permit) => Some(permit.expect("nobody closes it")),
        Poll::Pending => None,
    }
}

/// Of two that were booked the older one keeps what the younger was put behind, until that one is undone as well.
#[test]
fn bookings_that_are_all_undone_leave_nothing_in_whatever_order() {
    let orders: [[usize; 4]; 6] = [
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [1, 3, 0, 2],
        [2, 0, 3, 1],
        [0, 3, 1, 2],
        [3, 0, 2, 1],
    ];
    for order in orders {
        for step in [Duration::ZERO, Duration::from_millis(1)] {
            let time = ManualClock::new();
            let bucket = TokenBucket::interval(Quota::new(LIMIT, seconds(3600)));
            let gate = Gate::builder(bucket).clock(time.clock()).build();
            let costs = [7, 5, 1, 9];
            let mut held: Vec<_> = costs.map(|cost| gate.reserve(cost).ok()).into();
            assert_eq!(gate.snapshot().in_use(), 22);
            for which in order {
                time.advance(step);
                held[which].take().unwrap().undo();
                let out: u64 = (0..4)
                    .filter(|at| held[*at].is_some())
                    .map(|at| costs[at])
                    .sum();
                assert!(gate.snapshot().in_use() >= out, "{order:?}");
            }
            let seen = gate.snapshot();
            assert_eq!(
                (seen.in_use(), seen.granted_total()),
                (0, 0),
                "{order:?} {step:?}"
            );
        }
    }
}

/// While others stand behind what is undone, what they were put behind is not given to anybody else.
#[test]
fn undoing_a_booking_lets_no_two_bursts_meet() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1).burst(5));
    let gate = gate.clock(time.clock()).build();
    let first = gate.reserve(5).unwrap();
    let second = gate.reserve(5).unwrap();
    assert_eq!(second.wait(), Some(seconds(5)));
    first.undo();
    let third = gate.reserve(5).unwrap();
    assert_eq!(
        third.wait(),
        Some(seconds(10)),
        "not together with the second"
    );
    third.undo();
    second.undo();
    assert_eq!(gate.snapshot().available(), 5);
}

/// A refused reservation of several limiters used up what it had got from those before, unless the clock stood still.
#[test]
fn a_part_of_several_that_has_to_wait_takes_the_others_with_it() {
    let time = ManualClock::new();
    let slow = gate(
        "slow",
        TokenBucket::interval(Quota::new(LIMIT, seconds(60))),
        &time,
    );
    let log = gate(
        "log",
        SlidingLog::new(Quota::new(LIMIT, seconds(3600))),
        &time,
    );
    let both = All::new([slow.clone(), log.clone()]);
    slow.try_acquire(Demand::of(LIMIT)).unwrap().forget();
    let mut reserved = both.reserve(Demand::of(3)).unwrap();
    assert!(poll(&mut reserved).is_pending());
    time.advance(seconds(1));
    reserved.undo();
    assert_eq!(available(&*log), 10);
    assert_eq!(slow.snapshot().in_use(), 10);
}

/// The bookkeeping of bookings that are used or cancelled does not grow behind one that is kept.
#[test]
fn one_that_is_kept_for_long_keeps_no_others() {
    let time = ManualClock::new();
    let bucket = TokenBucket::interval(Quota::new(LIMIT, seconds(1)));
    let gate = Gate::builder(bucket).clock(time.clock()).build();
    let kept = gate.reserve(3).unwrap();
    for round in 0..1000 {
        let mut used = gate.reserve(1).unwrap();
        assert!(poll(&mut used).is_ready(), "{round}");
        gate.reserve(1).unwrap().undo();
        drop(gate.reserve(1).unwrap());
        time.advance(seconds(1));
    }
    kept.undo();
    assert_eq!(gate.snapshot().available(), 10);
    assert_eq!(gate.snapshot().granted_total(), 2000);
}
