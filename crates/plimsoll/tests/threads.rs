//! Many threads at one limiter: what is granted adds up, at every moment and in the end.

mod rules;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use plimsoll::{
    Concurrency, Demand, Gate, Limiter, LimiterExt, ManualClock, Moment, Queue, Quota, TokenBucket,
};

/// More than have a counter of their own.
const THREADS: u64 = 24;
const CALLS: u64 = 500;
const LIMIT: u64 = 1000;
const PERIOD: Duration = Duration::from_millis(100);

fn rates(queue: Option<Queue>, time: &ManualClock) -> Vec<Arc<dyn Limiter>> {
    rules::rates(Quota::new(LIMIT, PERIOD), queue, &time.clock())
}

/// Runs `work` on every thread, all at once. It is told the number of its thread.
fn together(work: impl Fn(u64) + Sync) {
    let start = Barrier::new(usize::try_from(THREADS).expect("a few"));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number);
            });
        }
    });
}

#[test]
fn while_the_clock_stands_still_exactly_the_limit_is_granted() {
    // Enough for a count that is not exact to show.
    const MANY: u64 = 10_000;
    let time = ManualClock::new();
    for limiter in rates(None, &time) {
        let granted = AtomicU64::new(0);
        together(|_| {
            for _ in 0..MANY {
                if limiter.try_acquire(Demand::ONE).is_ok() {
                    granted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let name = limiter.name();
        assert_eq!(granted.into_inner(), LIMIT, "{name:?}");
        let seen = limiter.snapshot();
        assert_eq!(seen.granted_total(), LIMIT, "{name:?}");
        let calls = MANY * THREADS;
        assert_eq!(seen.denied_total(), calls - LIMIT, "{name:?}");
    }
}

#[test]
fn costs_of_all_sizes_never_add_up_to_more_than_the_limit() {
    let time = ManualClock::new();
    for limiter in rates(None, &time) {
        let granted = AtomicU64::new(0);
        together(|number| {
            for call in 0..100 {
                let cost = 1 + (number + call) % 7;
                if limiter.try_acquire(Demand::of(cost)).is_ok() {
                    granted.fetch_add(cost, Ordering::Relaxed);
                }
            }
        });
        let sum = granted.into_inner();
        let seen = limiter.snapshot();
        // Everybody asked for one at last, so there is nothing left.
        assert_eq!((sum, seen.available()), (LIMIT, 0), "{:?}", limiter.name());
    }
}

/// The most that may be granted from the start until `elapsed`.
fn allowed(name: Option<&str>, elapsed: Duration) -> u128 {
    let (limit, period) = (u128::from(LIMIT), PERIOD.as_nanos());
    let elapsed = elapsed.as_nanos();
    match name {
        Some("greedy") => limit + elapsed * limit / period,
        Some("interval") => limit + elapsed / period * limit,
        Some("fixed") => (elapsed / period + 1) * limit,
        Some("sliding") => {
            let segments = u128::from(rules::SEGMENTS);
            let touched = elapsed * segments / period + 1;
            touched.div_ceil(segments) * limit
        }
        name => unreachable!("{name:?} is none of the rates"),
    }
}

#[test]
fn while_the_clock_moves_no_more_is_granted_than_its_time_allows() {
    for queue in [None, Some(Queue::fifo(100)), Some(Queue::lifo(100))] {
        for which in 0..4 {
            let time = ManualClock::new();
            let limiter = rates(queue, &time).swap_remove(which);
            let what = format!("{:?} with {queue:?}", limiter.name());
            let (granted, refused) = hammer(&*limiter, &time);
            let allowed = allowed(limiter.name(), time.now().since(Moment::ORIGIN));
            assert!(
                u128::from(granted) <= allowed,
                "{granted} > {allowed}: {what}"
            );
            let seen = limiter.snapshot();
            assert_eq!((seen.waiters(), seen.queued()), (0, 0), "{what}");
            assert_eq!(seen.denied_total(), refused, "{what}");
        }
    }
}

/// One thread moves the clock, the others take what they can. Tells how much was granted and how often
/// it was refused.
fn hammer(limiter: &dyn Limiter, time: &ManualClock) -> (u64, u64) {
    let (granted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let running = AtomicBool::new(true);
    together(|number| {
        if number == 0 {
            for _ in 0..60 {
                time.advance(Duration::from_micros(7_300));
                thread::yield_now();
            }
            running.store(false, Ordering::Relaxed);
            limiter.close();
        }
        while running.load(Ordering::Relaxed) {
            // Some wait, where that is possible.
            let demand = Demand::of(number % 5 + 1);
            let permit = if number % 2 == 0 {
                limiter.try_acquire(demand)
            } else {
                limiter.acquire_blocking(demand)
            };
            match permit {
                Ok(permit) => granted.fetch_add(permit.cost(), Ordering::Relaxed),
                Err(_) => refused.fetch_add(1, Ordering::Relaxed),
            };
        }
    });
    (granted.into_inner(), refused.into_inner())
}

#[test]
fn no_more_run_at_once_than_the_limit_and_everything_comes_back() {
    const SLOTS: u64 = 5;
    for queue in [Queue::fifo(1000), Queue::lifo(1000), Queue::fifo(3)] {
        let time = ManualClock::new();
        let gate = Gate::builder(Concurrency::new(SLOTS))
            .queue(queue)
            .clock(time.clock())
            .build();
        let running = AtomicU64::new(0);
        let (granted, denied) = (AtomicU64::new(0), AtomicU64::new(0));
        together(|number| {
            for call in 0..CALLS {
                let cost = 1 + number % SLOTS;
                let permit = if call % 2 == 0 {
                    gate.acquire_blocking(cost)
                } else {
                    gate.try_acquire(cost)
                };
                let Ok(permit) = permit else {
                    denied.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                granted.fetch_add(1, Ordering::Relaxed);
                let before = running.fetch_add(cost, Ordering::AcqRel);
                assert!(before + cost <= SLOTS, "{queue:?}");
                running.fetch_sub(cost, Ordering::AcqRel);
                drop(permit);
            }
        });
        let seen = gate.snapshot();
        assert_eq!((seen.in_use(), seen.waiters(), seen.queued()), (0, 0, 0));
        assert_eq!(seen.available(), SLOTS);
        let counted = (seen.granted_total(), seen.denied_total());
        let (granted, denied) = (granted.into_inner(), denied.into_inner());
        assert_eq!(counted, (granted, denied), "{queue:?}");
        assert_eq!(granted + denied, CALLS * THREADS);
    }
}

#[test]
fn permits_split_and_dropped_elsewhere_come_back() {
    let gate = Gate::new(Concurrency::new(THREADS * 3));
    let whole = std::sync::Mutex::new(gate.try_acquire(THREADS * 3).unwrap());
    together(|_| {
        let part = whole.lock().unwrap().split(3).unwrap();
        let mut part = part.into_owned();
        drop(part.split(1));
        drop(part);
    });
    assert_eq!(gate.snapshot().in_use(), 0);
    drop(whole);
    assert_eq!(gate.snapshot().available(), (THREADS * 3));
}

#[test]
fn a_limit_that_is_resized_under_load_ends_up_as_it_was_set() {
    let gate = Gate::builder(Concurrency::new(4))
        .queue(Queue::fifo(1000))
        .build();
    together(|number| {
        for call in 0..100 {
            if number == 0 {
                gate.resize(1 + call % 8).unwrap();
            } else if let Ok(permit) = gate.acquire_blocking(1) {
                assert!(gate.snapshot().in_use() <= 8);
                drop(permit);
            }
        }
    });
    gate.resize(6).unwrap();
    let seen = gate.snapshot();
    assert_eq!((seen.limit(), seen.available(), seen.in_use()), (6, 6, 0));
}

/// A word is good for an epoch, here of 67 ms. Whoever has read it when another thread turns the epoch
/// must not decide by it: after the 1.5 s in between it would mean an empty bucket.
///
/// It takes about a million rounds to happen once.
#[test]
fn nobody_is_refused_by_the_word_of_an_earlier_epoch() {
    let time = ManualClock::new();
    let quota = Quota::new(u64::MAX, Duration::from_nanos(1_000_000_007));
    let rule = TokenBucket::greedy(quota).burst(1000);
    let gate = Gate::builder(rule).clock(time.clock()).build();
    let refused = AtomicU64::new(0);
    let (start, end) = (Barrier::new(2), Barrier::new(2));
    let work = || {
        for _ in 0..100_000 {
            if start.wait().is_leader() {
                time.advance(Duration::from_millis(1500));
            }
            end.wait();
            // The bucket is full again, and two ask for one.
            if gate.try_acquire(1).is_err() {
                refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    assert_eq!(refused.into_inner(), 0);
}
