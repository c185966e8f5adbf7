//! A queue that is served at random.

use std::collections::HashMap;
use std::task::Poll;
use std::time::Duration;

use plimsoll::{
    Concurrency, Demand, Full, Gate, ManualClock, Priority, Queue, Reason, TokenBucket,
};

use crate::waiter::Waiter;

const SECOND: Duration = Duration::from_secs(1);

fn slots(queue: Queue) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(1))
        .queue(queue)
        .clock(ManualClock::new().clock())
        .build()
}

/// In which order so many are served that come one after the other.
fn served(queue: Queue, count: usize) -> Vec<usize> {
    let gate = slots(queue);
    let mut running = Some(gate.try_acquire(1).expect("it is free"));
    let mut waiting: Vec<_> = (0..count)
        .map(|number| (number, Waiter::new(gate.acquire(1))))
        .collect();
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(running.take());
        let woken = waiting.iter().position(|(_, waiter)| waiter.woken() > 0);
        let (number, mut waiter) = waiting.remove(woken.expect("somebody is served"));
        let Poll::Ready(Ok(permit)) = waiter.look() else {
            panic!("it was woken");
        };
        running = Some(permit.into_owned());
        order.push(number);
    }
    order
}

#[test]
fn a_seed_makes_the_order_the_same_each_time() {
    let queue = |seed| Queue::random(100).seed(seed);
    let orders: Vec<_> = (0..8).map(|seed| served(queue(seed), 20)).collect();
    for (seed, order) in (0..).zip(&orders) {
        assert_eq!(&served(queue(seed), 20), order);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>(), "each is served once");
        assert_ne!(order, &sorted, "not as they came");
    }
    assert_ne!(orders[0], orders[1]);
    // Without a seed it is another each time; that two are the same is one chance in 20!.
    assert_ne!(
        served(Queue::random(100), 20),
        served(Queue::random(100), 20)
    );
}

#[test]
fn every_order_is_as_likely_as_any_other() {
    let mut orders: HashMap<Vec<usize>, u32> = HashMap::new();
    for seed in 0..6_000 {
        *orders
            .entry(served(Queue::random(10).seed(seed), 3))
            .or_default() += 1;
    }
    assert_eq!(orders.len(), 6);
    // 1000 each, give or take five standard deviations of 29.
    assert!(
        orders.values().all(|&count| count.abs_diff(1_000) < 145),
        "{orders:?}"
    );
}

#[test]
fn a_sparse_arena_changes_no_chance() {
    // Many waited once, so that most nodes are free, and the list is walked.
    let mut first = [0_u32; 3];
    for seed in 0..1_500 {
        let gate = slots(Queue::random(2_000).seed(seed));
        let running = gate.try_acquire(1).unwrap();
        let crowd: Vec<_> = (0..200).map(|_| Waiter::new(gate.acquire(1))).collect();
        drop(crowd);
        let waiting: Vec<_> = (0..3).map(|_| Waiter::new(gate.acquire(1))).collect();
        drop(running);
        let served = waiting.iter().position(|waiter| waiter.woken() > 0);
        first[served.unwrap()] += 1;
    }
    assert!(
        first.iter().all(|&count| count.abs_diff(500) < 95),
        "{first:?}"
    );
}

#[test]
fn higher_classes_go_first_and_nobody_passes_the_queue() {
    for seed in 0..20 {
        let gate = slots(Queue::random(10).seed(seed));
        let running = gate.try_acquire(1).unwrap();
        let low: Vec<_> = (0..4).map(|_| Waiter::new(gate.acquire(1))).collect();
        let critical = Demand::ONE.priority(Priority::Critical);
        let high = Waiter::new(gate.acquire(critical));
        assert!(gate.try_acquire(1).is_err());
        drop(running);
        assert_eq!(high.woken(), 1);
        assert!(low.iter().all(|waiter| waiter.woken() == 0));
        let refused = gate.try_acquire(1).unwrap_err();
        assert_eq!(refused.reason(), Reason::Exhausted);
    }
}

#[test]
fn it_is_bounded_and_whoever_gives_up_leaves() {
    let gate = slots(Queue::random(2).seed(1));
    let running = gate.try_acquire(1).unwrap();
    let first = Waiter::new(gate.acquire(1));
    let second = Waiter::new(gate.acquire(1));
    let mut third = Waiter::unpolled(gate.acquire(1));
    assert!(matches!(third.look(), Poll::Ready(Err(Reason::QueueFull))));
    drop(first);
    let fourth = Waiter::new(gate.acquire(1));
    drop(running);
    assert_eq!(second.woken() + fourth.woken(), 1);
    assert_eq!(gate.snapshot().waiters(), 1);
}

#[test]
fn full_may_evict_anybody() {
    let mut evicted = [0_u32; 3];
    for seed in 0..300 {
        let gate = slots(Queue::random(3).full(Full::Oldest).seed(seed));
        let _running = gate.try_acquire(1).unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Waiter::new(gate.acquire(1))).collect();
        let _newcomer = Waiter::new(gate.acquire(1));
        for (waiter, count) in waiting.iter_mut().zip(&mut evicted) {
            *count += u32::from(matches!(waiter.look(), Poll::Ready(Err(Reason::Evicted))));
        }
    }
    assert_eq!(evicted.iter().sum::<u32>(), 300);
    assert!(
        evicted.iter().all(|count| (50..150).contains(count)),
        "{evicted:?}"
    );
}

#[test]
fn a_rate_serves_at_random_in_its_time() {
    for seed in 0..20 {
        let time = ManualClock::new();
        let gate = Gate::builder(TokenBucket::per_second(2).burst(2))
            .queue(Queue::random(20).seed(seed))
            .clock(time.clock())
            .build();
        drop(gate.try_acquire(2).unwrap());
        let mut waiting: Vec<_> = (0..6)
            .map(|n| Waiter::new(gate.acquire(1 + n % 2)))
            .collect();
        // 9 tokens at two a second; whoever is the head is served as soon as its own cost is there.
        for _ in 0..9 {
            time.advance(SECOND / 2);
        }
        for waiter in &mut waiting {
            assert!(matches!(waiter.look(), Poll::Ready(Ok(_))), "seed {seed}");
        }
        assert_eq!(gate.snapshot().available(), 0);
    }
}

#[test]
fn deadlines_hold() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .queue(Queue::random(20).seed(3))
        .clock(time.clock())
        .build();
    drop(gate.try_acquire(1).unwrap());
    let mut waiting: Vec<_> = (0..5)
        .map(|_| Waiter::new(gate.acquire(Demand::ONE.within(2 * SECOND))))
        .collect();
    for _ in 0..3 {
        time.advance(SECOND);
    }
    let answers: Vec<_> = waiting.iter_mut().map(Waiter::look).collect();
    let served = answers.iter().filter(|it| matches!(it, Poll::Ready(Ok(_))));
    let late = answers
        .iter()
        .filter(|it| matches!(it, Poll::Ready(Err(Reason::TimedOut))));
    assert_eq!((served.count(), late.count()), (2, 3));
}
