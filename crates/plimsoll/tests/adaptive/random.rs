//! A limit that moves at random neither mints nor loses, alone and under threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread;

use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{Gate, ManualClock, Outcome, Permit, Queue};
use proptest::prelude::*;

use crate::poll::poll;
use crate::scripted::Scripted;
use crate::waiter::Waiter;

/// What may happen to a limiter.
#[derive(Clone, Debug)]
enum Event {
    Take(u64),
    Wait(u64),
    Look(usize),
    Leave(usize),
    Finish(usize, bool, u64),
    Drop(usize),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..4_u64).prop_map(Event::Take),
        3 => (1..4_u64).prop_map(Event::Wait),
        2 => any::<usize>().prop_map(Event::Look),
        1 => any::<usize>().prop_map(Event::Leave),
        3 => (any::<usize>(), any::<bool>(), 1..12_u64)
            .prop_map(|(which, overload, next)| Event::Finish(which, overload, next)),
        1 => any::<usize>().prop_map(Event::Drop),
    ]
}

fn pick<T>(of: &mut Vec<T>, which: usize) -> Option<T> {
    (!of.is_empty()).then(|| of.remove(which % of.len()))
}

proptest! {
    #[test]
    fn a_moving_limit_neither_mints_nor_loses(events in prop::collection::vec(events(), 1..200)) {
        let time = ManualClock::new();
        let algorithm = Scripted::new(6);
        let gate = algorithm.gate(&time);
        let mut held: Vec<Permit<'_>> = Vec::new();
        let mut waiters: Vec<(u64, Waiter<'_>)> = Vec::new();
        // The naive model: the limit, and the most that may be in use, which falls only as permits come back.
        let (mut limit, mut most) = (6_u64, 6_u64);
        for event in events {
            let before = gate.snapshot().in_use();
            let nobody_waits = gate.snapshot().waiters() == 0;
            match event {
                Event::Take(cost) => {
                    let fits = nobody_waits && before + cost <= limit;
                    let answer = gate.try_acquire(cost);
                    prop_assert_eq!(answer.is_ok(), fits);
                    held.extend(answer);
                }
                Event::Wait(cost) => {
                    let mut future = gate.acquire(cost);
                    match poll(&mut future) {
                        Poll::Ready(answer) => held.extend(answer),
                        Poll::Pending => waiters.push((cost, Waiter::new(future))),
                    }
                }
                Event::Look(which) => {
                    if let Some((cost, mut waiter)) = pick(&mut waiters, which) {
                        match waiter.look() {
                            Poll::Ready(answer) => held.extend(answer),
                            Poll::Pending => waiters.push((cost, waiter)),
                        }
                    }
                }
                Event::Leave(which) => drop(pick(&mut waiters, which)),
                Event::Finish(which, overload, next) => {
                    if let Some(permit) = pick(&mut held, which) {
                        algorithm.say(next);
                        limit = next;
                        permit.finish(if overload { Outcome::Overload } else { Outcome::Success });
                        let heard = algorithm.heard();
                        prop_assert_eq!(heard.len(), 1);
                        prop_assert_eq!(heard[0].in_flight, before);
                    }
                }
                Event::Drop(which) => drop(pick(&mut held, which)),
            }
            let seen = gate.snapshot();
            most = limit.max(most.min(seen.in_use()));
            prop_assert_eq!(seen.limit(), limit);
            prop_assert!(seen.in_use() <= most, "{:?} over {}", seen, most);
            prop_assert_eq!(seen.available(), limit.saturating_sub(seen.in_use()));
            let out: u64 = held.iter().map(|permit| permit.cost()).sum();
            prop_assert!(out <= seen.in_use());
        }
        drop(waiters);
        let out: u64 = held.iter().map(|permit| permit.cost()).sum();
        prop_assert_eq!(gate.snapshot().in_use(), out);
        drop(held);
        prop_assert_eq!((gate.snapshot().in_use(), gate.snapshot().available()), (0, limit));
        prop_assert_eq!(gate.insight().lost, 0);
    }
}

/// Moves all the time, and checks what it is told.
#[derive(Debug)]
struct Restless {
    state: u64,
    most: Arc<AtomicU64>,
    learned: Arc<AtomicU64>,
}

impl Limit for Restless {
    fn limit(&self) -> u64 {
        1 + self.state % 7
    }

    fn sample(&mut self, sample: &Sample) {
        self.most.fetch_max(sample.in_flight, Ordering::Relaxed);
        self.state = self
            .state
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223)
            >> 1;
        self.learned.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn under_threads_every_sample_is_learned_from_or_counted_lost() {
    const EACH: u64 = 5_000;
    let learned = Arc::new(AtomicU64::new(0));
    let most = Arc::new(AtomicU64::new(0));
    let restless = Restless {
        state: 3,
        most: Arc::clone(&most),
        learned: Arc::clone(&learned),
    };
    // Where grants are not counted, all of them are timed.
    let gate = Gate::builder(Adaptive::new(restless))
        .queue(Queue::fifo(1_000))
        .totals(false)
        .build();
    let told = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..4 {
            let (gate, told) = (&gate, &told);
            scope.spawn(move || {
                for turn in 0..EACH {
                    let permit = match (turn + number) % 3 {
                        0 => gate.acquire_blocking(1).ok(),
                        1 => gate.try_acquire(1 + turn % 2).ok(),
                        _ => {
                            let mut waiter = gate.acquire(1);
                            match poll(&mut waiter) {
                                Poll::Ready(answer) => answer.ok(),
                                Poll::Pending => None,
                            }
                        }
                    };
                    let Some(permit) = permit else { continue };
                    match turn % 5 {
                        0 => drop(permit),
                        1 => permit.undo(),
                        _ => {
                            told.fetch_add(1, Ordering::Relaxed);
                            permit.finish(Outcome::Success);
                        }
                    }
                }
            });
        }
    });
    let findings = gate.insight();
    let seen = gate.snapshot();
    assert_eq!((seen.in_use(), seen.waiters()), (0, 0));
    assert_eq!(
        (seen.available(), seen.limit()),
        (seen.limit(), findings.limit)
    );
    // Seven are the most; a sample that races with a resize may be off by the resize.
    assert!((1..14).contains(&most.load(Ordering::Relaxed)));
    let told = told.load(Ordering::Relaxed);
    assert_eq!(learned.load(Ordering::Relaxed) + findings.lost, told);
}
