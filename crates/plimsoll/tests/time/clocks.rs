//! Where time comes from: it never runs backwards, and rings for everybody in order.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::{Clock, Gate, ManualClock, Moment, Queue, Quota, TokenBucket};

/// Writes down its name and the time whenever it is woken.
struct Bell {
    name: &'static str,
    time: ManualClock,
    log: Arc<Mutex<Vec<(&'static str, u64)>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let at = self.time.now().as_nanos();
        let mut log = self.log.lock().expect("nobody panics here");
        log.push((self.name, at));
    }
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_manual_clock_never_steps_back() {
    let time = ManualClock::starting_at(Moment::from_nanos(100));
    //              moved to, shows
    for (to, shows) in [(50, 100), (100, 100), (150, 150), (0, 150), (151, 151)] {
        time.advance_to(Moment::from_nanos(to));
        assert_eq!(time.now(), Moment::from_nanos(shows));
        assert_eq!(time.clock().now(), time.now());
        assert_eq!(time.clock().precise_now(), time.now());
    }
    time.advance(Duration::MAX);
    assert_eq!(time.now(), Moment::from_nanos(u64::MAX));
    time.advance(Duration::from_secs(1));
    assert_eq!(time.now(), Moment::from_nanos(u64::MAX));
}

#[test]
fn a_manual_clock_moved_by_many_never_steps_back() {
    let time = ManualClock::new();
    thread::scope(|scope| {
        for thread in 0..4 {
            let time = time.clone();
            scope.spawn(move || {
                let mut last = time.now();
                for step in 0..1000 {
                    time.advance_to(Moment::from_nanos(step * 7 + thread * 100));
                    assert!(time.now() >= last);
                    last = time.now();
                }
            });
        }
    });
    assert_eq!(time.now(), Moment::from_nanos(999 * 7 + 300));
}

#[test]
fn a_sleeper_is_woken_at_its_moment_and_once() {
    let time = ManualClock::new();
    let log = Arc::default();
    let waker = Waker::from(Arc::new(Bell {
        name: "sleeper",
        time: time.clone(),
        log: Arc::clone(&log),
    }));
    let mut sleep = time.clock().sleep_until(Moment::from_nanos(10));
    let mut dropped = time.clock().sleep_until(Moment::from_nanos(5));
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert!(poll_with(&mut dropped, &waker).is_pending());
    drop(dropped);
    time.advance_to(Moment::from_nanos(9));
    assert!(log.lock().unwrap().is_empty());
    assert!(poll_with(&mut sleep, &waker).is_pending());
    time.advance_to(Moment::from_nanos(1000));
    assert_eq!(*log.lock().unwrap(), [("sleeper", 10)]);
    assert!(poll_with(&mut sleep, &waker).is_ready());
    let mut past = time.clock().sleep_until(Moment::from_nanos(999));
    assert!(poll_with(&mut past, &waker).is_ready());
}

#[test]
fn limiters_on_one_clock_are_rung_in_the_order_of_time() {
    let time = ManualClock::new();
    let log = Arc::default();
    let periods = [("seven", 7), ("two", 2), ("three", 3)];
    let gates = periods.map(|(_, nanos)| {
        let rule = TokenBucket::greedy(Quota::new(1, Duration::from_nanos(nanos)));
        Gate::builder(rule.initial(0))
            .queue(Queue::fifo(10))
            .clock(time.clock())
            .build()
    });
    let mut waiting = Vec::new();
    for ((name, _), gate) in periods.iter().zip(&gates) {
        let waker = Waker::from(Arc::new(Bell {
            name,
            time: time.clone(),
            log: Arc::clone(&log),
        }));
        for _ in 0..3 {
            let mut future = gate.acquire(1);
            assert!(poll_with(&mut future, &waker).is_pending());
            waiting.push(future);
        }
    }
    // All of it in one step: everybody sees its own instant.
    time.advance(Duration::from_secs(1));
    let mut log = log.lock().unwrap().clone();
    assert!(log.is_sorted_by_key(|(_, at)| *at));
    log.sort_unstable();
    let expected: Vec<_> = [("seven", 7), ("three", 3), ("two", 2)]
        .iter()
        .flat_map(|&(name, nanos)| (1..=3).map(move |turn| (name, turn * nanos)))
        .collect();
    assert_eq!(log, expected);
}

#[test]
fn the_coarse_clock_never_runs_backwards_and_never_ahead_of_the_precise_one() {
    // Cores may disagree by a little.
    let little = Duration::from_micros(10);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = Moment::ORIGIN;
                for _ in 0..20_000 {
                    let coarse = Clock::system().now();
                    let precise = Clock::precise().now();
                    assert!(coarse >= last);
                    assert!(coarse <= precise.plus(little), "{coarse:?} {precise:?}");
                    last = coarse;
                }
            });
        }
    });
}

#[test]
fn both_readings_of_the_machines_time_differ_by_at_most_the_resolution() {
    let (system, precise) = (Clock::system(), Clock::precise());
    // The kernel passes over a tick that comes a little early.
    let most = system.resolution() * 3;
    assert!(most > Duration::ZERO && most <= Duration::from_millis(20));
    assert_eq!(precise.resolution(), Duration::ZERO);
    let outside = (0..20_000).filter(|_| {
        let before = precise.now();
        let coarse = system.now();
        assert!(system.precise_now().plus(Duration::from_micros(10)) >= before);
        before.since(coarse) > most
    });
    // But for a machine that its host stops just then.
    assert!(outside.count() < 2000);
}

#[test]
fn the_systems_clock_counts_from_the_epoch() {
    // Between the years 2020 and 2500.
    let years = |count: u64| count * 365 * 86_400 * 1_000_000_000;
    for clock in [Clock::system(), Clock::precise(), Clock::default()] {
        let now = clock.now().as_nanos();
        assert!((years(50)..years(530)).contains(&now), "{clock:?}: {now}");
    }
}

#[test]
fn a_sleeper_on_the_systems_clock_is_woken_after_its_moment() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    for clock in [Clock::system(), Clock::precise()] {
        let until = clock.precise_now().plus(Duration::from_millis(2));
        runtime.as_ref().unwrap().block_on(clock.sleep_until(until));
        assert!(clock.precise_now() >= until);
    }
}
