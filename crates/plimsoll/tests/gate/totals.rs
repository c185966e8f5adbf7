//! Everything is counted once, whichever way it went.

use std::sync::Arc;
use std::time::Duration;

use crate::poll::poll;
use crate::rules;
use plimsoll::{
    All, Concurrency, Demand, FixedWindow, Gate, Limiter, ManualClock, Queue, Quota, Rule,
    SlidingWindow, Snapshot, TokenBucket,
};

fn totals(seen: &Snapshot) -> [u64; 4] {
    [
        seen.granted_total(),
        seen.denied_total(),
        seen.evicted_total(),
        seen.cancelled_total(),
    ]
}

/// On every path, by the word or behind the lock: a refusal that one of them does not count is missing here.
#[test]
fn each_demand_is_counted_once() {
    let time = ManualClock::new();
    let queue = Some(Queue::lifo(2));
    for limiter in rules::rates(Quota::per_second(2), queue, &time.clock()) {
        let name = limiter.name();
        let count = |expected: [u64; 4], what| {
            assert_eq!(totals(&limiter.snapshot()), expected, "{what}: {name:?}");
        };
        //                                granted, denied, evicted, cancelled
        drop(limiter.try_acquire(Demand::ONE));
        count([1, 0, 0, 0], "granted at once");
        assert!(poll(&mut limiter.acquire(Demand::ONE)).is_ready());
        count([2, 0, 0, 0], "granted at once to one who would have waited");
        drop(limiter.try_acquire(Demand::of(0)));
        count([2, 1, 0, 0], "refused though it costs nothing");
        drop(limiter.try_acquire(Demand::of(3)));
        count([2, 2, 0, 0], "too large");
        let _seen = limiter.estimate(Demand::ONE);
        count([2, 2, 0, 0], "only asked about");
        let mut waiters = [(); 3].map(|()| limiter.acquire(Demand::ONE));
        for waiter in &mut waiters {
            assert!(poll(waiter).is_pending());
        }
        count([2, 3, 1, 0], "the oldest of three evicted");
        let [_evicted, second, _third] = waiters;
        drop(second);
        count([2, 3, 1, 1], "one left by itself");
        time.advance(Duration::from_secs(1));
        count([3, 3, 1, 1], "one served");
        limiter.close();
        drop(limiter.try_acquire(Demand::ONE));
        count([3, 4, 1, 1], "closed");
        time.advance(Duration::from_secs(9));
    }
}

/// A limit that was made smaller than what is out was more than full.
#[test]
fn how_full_it_is_goes_from_0_to_1() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(4))
        .clock(time.clock())
        .build();
    let mut held = Vec::new();
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let seen = gate.snapshot();
        assert!((seen.saturation() - share).abs() < f64::EPSILON);
        held.extend(gate.try_acquire(1));
    }
    gate.resize(1).unwrap();
    assert!((gate.snapshot().saturation() - 1.0).abs() < f64::EPSILON);
    let denied = gate.try_acquire(1).unwrap_err();
    assert!((denied.percent_used() - 100.0).abs() < f64::EPSILON);
}

/// What is counted behind the lock is not shown either.
#[test]
fn a_limiter_told_not_to_count_does_not() {
    fn counted<R: Rule>(rule: R) -> [u64; 2] {
        let time = ManualClock::new();
        let gate = Gate::builder(rule)
            .clock(time.clock())
            .totals(false)
            .build();
        drop(gate.try_acquire(1));
        drop(gate.try_acquire(1));
        drop(gate.try_acquire(0));
        drop(gate.take_up_to(1));
        let seen = gate.snapshot();
        [seen.granted_total(), seen.denied_total()]
    }
    let one = Quota::per_second(1);
    let counts = [
        counted(TokenBucket::greedy(one)),
        counted(FixedWindow::new(one)),
        counted(SlidingWindow::new(one, 1)),
        counted(Concurrency::new(1)),
    ];
    assert_eq!(counts, [[0, 0]; 4]);
}

/// Each member counted that it was undone, and the whole did not: neither the outer nor the inner one, of members on one clock
/// or on two, which are held in different ways.
#[test]
fn what_is_undone_was_not_granted_by_several_either() {
    let time = ManualClock::new();
    let other = ManualClock::new();
    for clock in [&time, &other] {
        let a = Arc::new(
            Gate::builder(TokenBucket::per_second(9))
                .clock(time.clock())
                .build(),
        );
        let b = Arc::new(
            Gate::builder(TokenBucket::per_second(9))
                .clock(clock.clock())
                .build(),
        );
        let inner = Arc::new(All::new([a.clone() as Arc<dyn Limiter>]));
        let all = All::new([inner.clone() as Arc<dyn Limiter>, b]);
        all.try_acquire(1).unwrap().undo();
        let mut kept = all.try_acquire(3).unwrap();
        // A part is not a grant.
        kept.split(1).unwrap().undo();
        let granted = |limiter: &dyn Limiter| limiter.snapshot().granted_total();
        assert_eq!((granted(&all), granted(&*inner), granted(&*a)), (1, 1, 1));
        kept.undo();
        assert_eq!((granted(&all), granted(&*inner), granted(&*a)), (0, 0, 0));
    }
}
