//! Waiting without any runtime: the thread itself waits. No test sleeps; what is waited for is real.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use plimsoll::{
    All, Clock, Concurrency, Demand, Gate, Limiter, LimiterExt, ManualClock, Queue, Quota, Reason,
    TokenBucket,
};

use crate::rules;

fn slots(limit: u64, time: &ManualClock) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build()
}

/// Until so many wait.
fn until_waiting(limiter: &dyn Limiter, count: u64) {
    while limiter.snapshot().waiters() != count {
        thread::yield_now();
    }
}

#[test]
fn a_permit_is_handed_from_thread_to_thread_in_the_order_they_came() {
    let gate = slots(1, &ManualClock::new());
    let order = Mutex::new(Vec::new());
    let held = gate.try_acquire(1).unwrap();
    thread::scope(|scope| {
        for number in 0..20 {
            let (gate, order) = (&gate, &order);
            scope.spawn(move || {
                let permit = gate.acquire_blocking(1).unwrap();
                order.lock().unwrap().push(number);
                drop(permit);
            });
            until_waiting(gate, number + 1);
        }
        drop(held);
    });
    assert!(order.into_inner().unwrap().into_iter().eq(0..20));
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_thread_gives_up_when_another_moves_the_clock_past_its_timeout() {
    let time = ManualClock::new();
    let gate = slots(1, &time);
    let _held = gate.try_acquire(1).unwrap();
    let second = Duration::from_secs(1);
    thread::scope(|scope| {
        let waits = scope.spawn(|| gate.acquire_blocking(Demand::ONE.within(second)).map(drop));
        until_waiting(&gate, 1);
        time.advance(second);
        assert_eq!(gate.snapshot().waiters(), 1);
        time.advance(Duration::from_nanos(1));
        let denied = waits.join().unwrap().unwrap_err();
        assert_eq!(denied.reason(), Reason::TimedOut);
    });
}

#[test]
fn every_rate_serves_a_thread_when_another_moves_the_clock() {
    let time = ManualClock::new();
    let queue = Some(Queue::fifo(1));
    for limiter in rules::rates(Quota::per_second(1), queue, &time.clock()) {
        limiter.acquire_blocking(Demand::ONE).unwrap().forget();
        let then = time.now().plus(Duration::from_secs(1));
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let permit = limiter.acquire_blocking(Demand::ONE);
                permit.map(|permit| permit.granted_at())
            });
            until_waiting(&*limiter, 1);
            time.advance(Duration::from_secs(3));
            assert_eq!(waits.join().unwrap(), Ok(then), "{:?}", limiter.name());
        });
    }
}

#[test]
fn closing_wakes_the_threads_that_wait() {
    let gate = slots(1, &ManualClock::new());
    let _held = gate.try_acquire(1).unwrap();
    thread::scope(|scope| {
        let waits = [(); 20].map(|()| scope.spawn(|| gate.acquire_blocking(1).map(drop)));
        until_waiting(&gate, 20);
        gate.close();
        for waits in waits {
            let denied = waits.join().unwrap().unwrap_err();
            assert_eq!(denied.reason(), Reason::Closed);
        }
    });
}

#[test]
fn without_a_queue_nobody_waits() {
    let gate = Gate::new(Concurrency::new(1));
    let _held = gate.acquire_blocking(1).unwrap();
    let denied = gate.acquire_blocking(1).unwrap_err();
    assert_eq!(denied.reason(), Reason::Exhausted);
}

#[test]
fn a_token_of_the_systems_clock_is_waited_for() {
    let every = Duration::from_millis(5);
    let rule = TokenBucket::greedy(Quota::new(1, every));
    for clock in [Clock::system(), Clock::precise()] {
        let gate = Gate::builder(rule.clone())
            .queue(Queue::fifo(3))
            .clock(clock.clone())
            .build();
        let first = gate.acquire_blocking(1).unwrap().granted_at();
        let second = gate.acquire_blocking(1).unwrap().granted_at();
        let third = gate.acquire_blocking(1).unwrap().granted_at();
        assert!(second >= first.plus(every), "{clock:?}");
        assert!(third >= first.plus(2 * every), "{clock:?}");
        assert!(clock.precise_now() >= third, "{clock:?}");
    }
}

#[test]
fn a_timeout_of_the_systems_clock_is_kept() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let _held = gate.try_acquire(1).unwrap();
    let clock = Clock::system();
    let until = clock.precise_now().plus(Duration::from_millis(2));
    let denied = gate.acquire_blocking(Demand::ONE.until(until)).unwrap_err();
    assert_eq!(denied.reason(), Reason::TimedOut);
    assert!(clock.precise_now() > until);
}

#[test]
fn a_reservation_can_be_waited_for() {
    let every = Duration::from_millis(2);
    let gate = Gate::new(TokenBucket::greedy(Quota::new(1, every)));
    let now = gate.reserve(1).unwrap();
    let later = gate.reserve(1).unwrap();
    let then = later.ready_at().unwrap();
    assert!(now.wait_blocking().unwrap().granted_at() < then);
    let permit = later.wait_blocking().unwrap();
    assert_eq!(permit.granted_at(), then);
    assert!(Clock::system().precise_now() >= then);
}

#[test]
fn a_reserved_place_is_waited_for_until_it_is_given_back() {
    let gate = slots(1, &ManualClock::new());
    let held = gate.try_acquire(1).unwrap();
    let reserved = gate.reserve(1).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| reserved.wait_blocking().map(drop));
        drop(held);
        assert!(waits.join().unwrap().is_ok());
    });
}

#[test]
fn a_thread_waits_for_all_of_several() {
    let time = ManualClock::new();
    let slots = Arc::new(slots(1, &time));
    let rate = Gate::builder(TokenBucket::per_second(1)).queue(Queue::fifo(5));
    let rate = Arc::new(rate.clock(time.clock()).build());
    let all = All::new([slots.clone() as Arc<dyn Limiter>, rate.clone()]);
    let held = all.acquire_blocking(Demand::ONE).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| all.acquire_blocking(Demand::ONE).map(drop));
        until_waiting(&*slots, 1);
        drop(held);
        until_waiting(&*rate, 1);
        time.advance(Duration::from_secs(1));
        assert!(waits.join().unwrap().is_ok());
    });
    assert_eq!(
        (slots.snapshot().in_use(), rate.snapshot().available()),
        (0, 0)
    );
}
