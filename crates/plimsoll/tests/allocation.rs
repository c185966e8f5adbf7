//! Nothing is allocated where it matters: not to grant, not to refuse, and once there has been room for
//! as many waiters, not to wait either.

mod counting;
mod poll;
mod rules;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use counting::allocations;
use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{
    Acquire, All, Clock, Concurrency, Demand, Gate, Limiter, LimiterExt, ManualClock, Outcome,
    Permit, Queue, Quota, Reason, SlidingWindow, TokenBucket,
};
use poll::poll;

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(Box::new(1))), 1);
    assert_eq!(allocations(|| drop(vec![0_u8; 100])), 1);
    assert_eq!(allocations(|| ()), 0);
}

/// Plenty, so that everything is granted.
const PLENTY: Quota = Quota::per_second(1_000_000);

/// Goes up and down between two limits.
#[derive(Debug)]
struct Swinging {
    around: u64,
    up: bool,
}

impl Limit for Swinging {
    fn limit(&self) -> u64 {
        self.around + u64::from(self.up)
    }

    fn sample(&mut self, _sample: &Sample) {
        self.up = !self.up;
    }

    fn tick_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}

/// A limiter of every kind, of as many units.
fn every(quota: Quota, queue: Option<Queue>, clock: &Clock) -> Vec<Arc<dyn Limiter>> {
    let mut limiters = rules::rates(quota, queue, clock);
    let slots = Concurrency::new(quota.units());
    limiters.push(rules::gate("concurrency", slots, queue, clock));
    let adaptive = Adaptive::new(Swinging {
        around: quota.units(),
        up: false,
    });
    limiters.push(rules::gate("adaptive", adaptive, queue, clock));
    limiters
}

/// A limiter of every kind, several at once, and several of several.
fn everything(clock: &Clock) -> Vec<Arc<dyn Limiter>> {
    let mut limiters = every(PLENTY, Some(Queue::fifo(10)), clock);
    let all = All::new(limiters.iter().cloned()).with_name("all");
    limiters.push(Arc::new(all));
    let nested = All::new(limiters.iter().cloned()).with_name("all of all");
    limiters.push(Arc::new(nested));
    limiters
}

type Way = fn(&dyn Limiter);

fn take(limiter: &dyn Limiter, cost: u64) -> Permit<'_> {
    limiter
        .try_acquire(Demand::of(cost))
        .expect("there is plenty")
}

/// All ways to be granted something, and everything that can be done with a permit.
const WAYS: [(&str, Way); 11] = [
    ("try_acquire", |limiter| drop(take(limiter, 3))),
    ("acquire", |limiter| {
        let Poll::Ready(granted) = poll(&mut limiter.acquire(Demand::of(3))) else {
            panic!("there is plenty");
        };
        drop(granted.expect("there is plenty"));
    }),
    ("acquire_blocking", |limiter| {
        drop(
            limiter
                .acquire_blocking(Demand::of(3))
                .expect("there is plenty"),
        );
    }),
    ("cost 0", |limiter| drop(take(limiter, 0))),
    ("split", |limiter| {
        let mut whole = take(limiter, 5);
        let part = whole.split(2).expect("5 are more than 2");
        drop(whole);
        drop(part);
    }),
    ("merge", |limiter| {
        let mut one = take(limiter, 1);
        one.merge(take(limiter, 2)).expect("both are its own");
        drop(one);
    }),
    ("into_owned", |limiter| {
        let mut owned = take(limiter, 3).into_owned();
        drop(owned.split(1));
        drop(owned);
    }),
    ("finish", |limiter| {
        take(limiter, 2).finish(Outcome::Success);
    }),
    ("undo", |limiter| take(limiter, 2).undo()),
    ("forget", |limiter| take(limiter, 1).forget()),
    ("snapshot", |limiter| {
        let _seen = limiter.snapshot();
    }),
];

#[test]
fn granting_allocates_nothing() {
    let time = ManualClock::new();
    // What a thread needs once, whatever limiter it asks first, and the clock's own thread.
    let first = Gate::new(Concurrency::new(10_000));
    for (_, way) in WAYS.repeat(100) {
        way(&first);
    }
    // A thread that moves to another processor in the middle may read an earlier time than the last grant of a member. Then that
    // member is granted at a later moment than the others, and each permit is stored. So of a real clock one of a few runs counts.
    let clocks = [
        (time.clock(), 1),
        (Clock::precise(), 5),
        (Clock::system(), 5),
    ];
    for (clock, runs) in clocks {
        for limiter in everything(&clock) {
            for (name, way) in WAYS {
                let twenty = || allocations(|| (0..20).for_each(|_| way(&*limiter)));
                let least = (0..runs).map(|_| twenty()).find(|count| *count == 0);
                assert_eq!(
                    least,
                    Some(0),
                    "{name} of {:?} on {clock:?}",
                    limiter.name()
                );
            }
        }
    }
}

/// The reasons given by `try_acquire` and by `acquire`, and how much was allocated for both.
fn refusals(limiter: &dyn Limiter, cost: u64) -> (Reason, Reason, u64) {
    let mut reasons = None;
    let count = allocations(|| {
        let Err(tried) = limiter.try_acquire(Demand::of(cost)) else {
            panic!("{:?} has nothing left", limiter.name());
        };
        let Poll::Ready(Err(asked)) = poll(&mut limiter.acquire(Demand::of(cost))) else {
            panic!("{:?} neither grants nor lets wait", limiter.name());
        };
        reasons = Some((tried.reason(), asked.reason()));
    });
    let (tried, asked) = reasons.expect("it has run");
    (tried, asked, count)
}

#[test]
fn refusing_allocates_nothing() {
    let time = ManualClock::new();
    for limiter in every(Quota::per_second(1), None, &time.clock()) {
        let name = limiter.name();
        let held = limiter.try_acquire(Demand::ONE).unwrap();
        for (cost, reason) in [(1, Reason::Exhausted), (2, Reason::TooLarge)] {
            assert_eq!(refusals(&*limiter, cost), (reason, reason, 0), "{name:?}");
        }
        limiter.close();
        let closed = (Reason::Closed, Reason::Closed, 0);
        assert_eq!(refusals(&*limiter, 1), closed, "{name:?}");
        drop(held);
    }
}

#[test]
fn refusing_at_a_full_queue_allocates_nothing() {
    let time = ManualClock::new();
    let queue = Some(Queue::fifo(0));
    for limiter in without_sliding(every(Quota::per_second(1), queue, &time.clock())) {
        let _held = limiter.try_acquire(Demand::ONE).unwrap();
        let full = (Reason::Exhausted, Reason::QueueFull, 0);
        assert_eq!(refusals(&*limiter, 1), full, "{:?}", limiter.name());
    }
}

#[test]
fn the_refusal_of_one_of_several_allocates_nothing() {
    let time = ManualClock::new();
    let mut members = without_sliding(every(PLENTY, None, &time.clock()));
    let empty = TokenBucket::per_second(5).initial(0);
    members.insert(
        1,
        Arc::new(Gate::builder(empty).clock(time.clock()).build()),
    );
    let all = All::new(members);
    let count = allocations(|| {
        assert_eq!(all.try_acquire(1).unwrap_err().reason(), Reason::Exhausted);
    });
    assert_eq!(count, 0);
}

/// A sliding window copies its counts to look ahead; see the test of that name.
fn without_sliding(mut limiters: Vec<Arc<dyn Limiter>>) -> Vec<Arc<dyn Limiter>> {
    limiters.retain(|limiter| limiter.name() != Some("sliding"));
    limiters
}

const CROWD: u64 = 100;

/// A crowd waits; half of it is served, half of that unread, and the other half gives up.
fn round<'a>(
    limiter: &'a dyn Limiter,
    time: &ManualClock,
    crowd: &mut Vec<Acquire<'a>>,
    demand: Demand,
) {
    let mut held = None;
    while let Ok(permit) = limiter.try_acquire(Demand::of(10)) {
        held = Some(permit);
    }
    for _ in 0..CROWD {
        let mut waiter = limiter.acquire(demand);
        assert!(poll(&mut waiter).is_pending(), "{:?}", limiter.name());
        crowd.push(waiter);
    }
    drop(held);
    time.advance(Duration::from_secs(5));
    // What is given back serves the next when it is read.
    let given_back = ["concurrency", "adaptive"].map(Some);
    for (at, waiter) in crowd
        .iter_mut()
        .take(usize::try_from(CROWD).expect("a few") / 2)
        .enumerate()
    {
        if at % 2 == 0 || given_back.contains(&limiter.name()) {
            assert!(poll(waiter).is_ready(), "{:?}: {at}", limiter.name());
        }
    }
    crowd.clear();
    assert_eq!(limiter.snapshot().waiters(), 0);
    time.advance(Duration::from_secs(60));
}

fn second_round(limiter: &dyn Limiter, time: &ManualClock, demand: Demand) -> u64 {
    let mut crowd = Vec::with_capacity(usize::try_from(CROWD).expect("a few"));
    round(limiter, time, &mut crowd, demand);
    allocations(|| round(limiter, time, &mut crowd, demand))
}

#[test]
fn a_second_crowd_of_waiters_allocates_nothing() {
    let time = ManualClock::new();
    let queue = Some(Queue::fifo(CROWD));
    for limiter in every(Quota::per_second(10), queue, &time.clock()) {
        let count = second_round(&*limiter, &time, Demand::ONE);
        assert_eq!(count, 0, "{:?}", limiter.name());
    }
}

#[test]
fn a_second_crowd_of_waiters_with_deadlines_allocates_nothing() {
    let time = ManualClock::new();
    let queue = Some(Queue::fifo(CROWD));
    let demand = Demand::ONE.within(Duration::from_secs(1000));
    for limiter in without_sliding(every(Quota::per_second(10), queue, &time.clock())) {
        let count = second_round(&*limiter, &time, demand);
        assert_eq!(count, 0, "{:?}", limiter.name());
    }
}

#[test]
fn waiting_for_several_allocates_once() {
    let time = ManualClock::new();
    let queue = Some(Queue::fifo(CROWD));
    let members = every(Quota::per_second(10), queue, &time.clock());
    let all = All::new(without_sliding(members));
    let _held = all.try_acquire(10).unwrap();
    let mut crowd = Vec::with_capacity(usize::try_from(CROWD).expect("a few"));
    let mut wait = || {
        crowd.extend((0..CROWD).map(|_| all.acquire(1)));
        crowd.iter_mut().for_each(|waiter| drop(poll(waiter)));
        assert_eq!(all.snapshot().waiters(), CROWD);
        crowd.clear();
    };
    wait();
    assert_eq!(allocations(wait), CROWD);
}

#[test]
fn a_second_reservation_allocates_nothing() {
    let time = ManualClock::new();
    for limiter in without_sliding(every(PLENTY, None, &time.clock())) {
        let reserve = || drop(limiter.reserve(Demand::ONE).unwrap());
        reserve();
        assert_eq!(allocations(reserve), 0, "{:?}", limiter.name());
    }
}

#[test]
fn a_sliding_window_looks_ahead_without_allocating() {
    let time = ManualClock::new();
    let gate = || {
        Gate::builder(SlidingWindow::new(Quota::per_second(10), 10))
            .queue(Queue::fifo(CROWD))
            .clock(time.clock())
            .build()
    };
    let (fresh, used, crowded) = (gate(), gate(), gate());
    used.try_acquire(10).unwrap().forget();
    used.set_queue_bound(0);
    let demand = Demand::ONE.within(Duration::from_secs(1000));
    let counts = [
        ("estimate", allocations(|| fresh.estimate(1).unwrap())),
        ("reserve", allocations(|| drop(fresh.reserve(1).unwrap()))),
        ("queue full", refusals(&used, 1).2),
        ("cost 0", refusals(&used, 0).2),
        ("deadlines", second_round(&crowded, &time, demand)),
    ];
    assert!(counts.iter().all(|(_, count)| *count == 0), "{counts:?}");
}
