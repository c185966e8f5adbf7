//! What can be done to a rate from outside: adding, starting anew, taking what there is. And where its
//! windows begin.

use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::waiter::Waiter;
use plimsoll::{
    FixedWindow, Gate, ManualClock, Moment, Queue, Quota, Rule, SlidingWindow, TokenBucket,
};

const TEN: Quota = Quota::per_second(10);

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Runs a test on a limiter of every rate of 10 a second, with a queue.
fn on_each(test: impl Fn(&str, &dyn Rate, &ManualClock)) {
    fn gate<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
        Gate::builder(rule)
            .queue(Queue::fifo(50))
            .clock(time.clock())
            .build()
    }
    let time = ManualClock::starting_at(Moment::from_nanos(123_456_789));
    test("greedy", &gate(TokenBucket::greedy(TEN), &time), &time);
    test("interval", &gate(TokenBucket::interval(TEN), &time), &time);
    test("fixed", &gate(FixedWindow::new(TEN), &time), &time);
    test("sliding", &gate(SlidingWindow::new(TEN, 4), &time), &time);
}

/// What a gate of any rule can do.
trait Rate {
    fn acquire(&self, cost: u64) -> plimsoll::Acquire<'_>;
    fn take(&self, most: u64) -> u64;
    fn add(&self, amount: u64);
    fn reset(&self);
    fn left(&self) -> u64;
}

impl<R: Rule> Rate for Gate<R> {
    fn acquire(&self, cost: u64) -> plimsoll::Acquire<'_> {
        Self::acquire(self, cost)
    }

    fn take(&self, most: u64) -> u64 {
        self.take_up_to(most).cost()
    }

    fn add(&self, amount: u64) {
        Self::add(self, amount);
    }

    fn reset(&self) {
        Self::reset(self);
    }

    fn left(&self) -> u64 {
        self.snapshot().available()
    }
}

#[test]
fn as_many_are_taken_as_there_are() {
    on_each(|name, rate, _| {
        //           at most, taken
        for (most, taken) in [(0, 0), (4, 4), (9, 6), (9, 0)] {
            assert_eq!(rate.take(most), taken, "{name}");
        }
    });
}

#[test]
fn nobody_who_waits_is_passed_by_who_takes_what_there_is() {
    on_each(|name, rate, _| {
        assert_eq!(rate.take(5), 5, "{name}");
        let _large = Waiter::new(rate.acquire(6));
        assert_eq!((rate.take(1), rate.left()), (0, 5), "{name}");
    });
}

#[test]
fn what_is_added_is_at_most_the_limit() {
    on_each(|name, rate, _| {
        assert_eq!(rate.take(7), 7, "{name}");
        //           added, left
        for (added, left) in [(2, 5), (0, 5), (u64::MAX, 10), (1, 10)] {
            rate.add(added);
            assert_eq!(rate.left(), left, "{name}");
        }
    });
}

#[test]
fn what_is_added_goes_to_who_waits() {
    on_each(|name, rate, _| {
        assert_eq!(rate.take(10), 10, "{name}");
        let mut waiters = [3, 3, 3].map(|cost| Waiter::new(rate.acquire(cost)));
        rate.add(7);
        assert_eq!(waiters.each_ref().map(Waiter::woken), [1, 1, 0], "{name}");
        let answers = waiters.each_mut().map(|waiter| waiter.look().is_ready());
        assert_eq!(answers, [true, true, false], "{name}");
        assert_eq!(rate.left(), 1, "{name}");
    });
}

#[test]
fn starting_anew_serves_who_waits_and_starts_new_windows() {
    on_each(|name, rate, time| {
        time.advance(millis(700));
        assert_eq!(rate.take(10), 10, "{name}");
        let mut waiter = Waiter::new(rate.acquire(10));
        rate.reset();
        assert!(matches!(waiter.look(), Poll::Ready(Ok(_))), "{name}");
        assert_eq!(rate.left(), 0, "{name}");
        // A whole period from the reset, not from the start.
        time.advance(millis(999));
        assert!(rate.left() < 10, "{name}");
        time.advance(millis(1));
        assert_eq!(rate.left(), 10, "{name}");
        rate.reset();
        assert_eq!(rate.left(), 10, "{name}");
    });
}

#[test]
fn windows_begin_where_they_are_told_to() {
    let time = ManualClock::starting_at(Moment::from_nanos(700_000_000));
    let gate = |rule| Gate::builder(rule).clock(time.clock()).build();
    let start = gate(FixedWindow::new(TEN));
    let epoch = gate(FixedWindow::new(TEN).aligned_to_epoch());
    let left = || {
        for gate in [&start, &epoch] {
            drop(gate.take_up_to(10));
        }
        [&start, &epoch].map(|gate| gate.try_acquire(1).unwrap_err().retry_after())
    };
    let expect = |start, epoch| [Some(millis(start)), Some(millis(epoch))];
    assert_eq!(left(), expect(1000, 300));
    time.advance(millis(300));
    assert_eq!(left(), expect(700, 1000));
    // Starting anew moves the borders of the one and not of the other.
    start.reset();
    epoch.reset();
    assert_eq!(left(), expect(1000, 1000));
    time.advance(millis(400));
    assert_eq!(left(), expect(600, 600));
}

#[test]
fn a_segment_begins_with_the_first_nanosecond_that_is_wholly_its_own() {
    // 10 ns in 3 segments: they begin at 0, 4, 7, 10, 14, 17, 20.
    let time = ManualClock::new();
    let rule = SlidingWindow::new(Quota::new(3, Duration::from_nanos(10)), 3);
    let gate = Gate::builder(rule).clock(time.clock()).build();
    //   at, granted, available afterwards
    let steps = [
        (3, true, 2),
        (4, true, 1),
        (6, true, 0),
        (9, false, 0),
        (10, true, 0),
        (13, false, 0),
        (14, true, 1),
        (19, true, 0),
        (20, true, 0),
        (23, false, 0),
        (24, true, 0),
        // A long gap expires everything, however few looked in between.
        (1000, true, 2),
    ];
    for (at, granted, left) in steps {
        time.advance_to(Moment::from_nanos(at));
        assert_eq!(gate.try_acquire(1).is_ok(), granted, "at {at}");
        assert_eq!(gate.snapshot().available(), left, "at {at}");
    }
}

#[test]
fn asking_for_nothing_asks_whether_there_is_something() {
    on_each(|name, rate, time| {
        assert!(poll(&mut rate.acquire(0)).is_ready(), "{name}");
        assert_eq!(rate.take(10), 10, "{name}");
        let mut nothing = Waiter::new(rate.acquire(0));
        time.advance(millis(1000));
        assert!(matches!(nothing.look(), Poll::Ready(Ok(_))), "{name}");
        assert_eq!(rate.left(), 10, "{name}");
    });
}
