//! Random crowds that wait for one limiter or for several: nobody holds what it waits with, nobody is forgotten, and
//! nobody who waits for several is passed for ever.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::waiter::Waiter;
use plimsoll::{
    All, Concurrency, Demand, Gate, Limiter, ManualClock, Permit, Priority, Queue, Quota, Reason,
    SlidingLog, Smooth, TokenBucket,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Asks one limiter.
    One(usize, Ask),
    /// Asks several.
    Several(Vec<usize>, Ask),
    /// A waiter gives up.
    GiveUp(usize),
    /// A permit comes back.
    GiveBack(usize),
    Advance(u64),
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    cost: u64,
    priority: Priority,
    timeout: Option<u64>,
}

impl Ask {
    fn demand(self) -> Demand {
        let demand = Demand::of(self.cost).priority(self.priority);
        match self.timeout {
            Some(millis) => demand.within(Duration::from_millis(millis)),
            None => demand,
        }
    }
}

fn ask() -> impl Strategy<Value = Ask> {
    let priority = prop_oneof![
        1 => Just(Priority::NonCritical),
        4 => Just(Priority::Normal),
        1 => Just(Priority::Critical),
    ];
    (0..3_u64, priority, prop::option::weighted(0.2, 0..3000_u64)).prop_map(
        |(cost, priority, timeout)| Ask {
            cost,
            priority,
            timeout,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize, ask()).prop_map(|(which, ask)| Step::One(which, ask)),
        3 => (prop::collection::vec(0..4_usize, 1..4), ask())
            .prop_map(|(which, ask)| Step::Several(which, ask)),
        1 => (0..8_usize).prop_map(Step::GiveUp),
        4 => (0..8_usize).prop_map(Step::GiveBack),
        2 => (0..1500_u64).prop_map(Step::Advance),
    ]
}

fn limiter(kind: u64, time: &ManualClock) -> Arc<dyn Limiter> {
    let units = 2 + kind / 6 % 3;
    let queue = if kind.is_multiple_of(17) {
        Queue::lifo(20)
    } else {
        Queue::fifo(1000)
    };
    let quota = Quota::per_second(units);
    macro_rules! gate {
        ($rule:expr) => {{
            let builder = Gate::builder($rule).queue(queue).clock(time.clock());
            Arc::new(builder.build()) as Arc<dyn Limiter>
        }};
    }
    match kind % 6 {
        0..=2 => gate!(Concurrency::new(units)),
        3 => gate!(TokenBucket::greedy(quota)),
        4 => gate!(SlidingLog::new(quota)),
        _ => gate!(Smooth::bursty(units as f64, Duration::from_secs(1))),
    }
}

/// Everybody who waits or has got something, and of which limiters.
struct Crowd<'a> {
    waiting: Vec<(Waiter<'a>, u64, Vec<usize>)>,
    held: Vec<(Permit<'a>, Vec<usize>)>,
}

impl<'a> Crowd<'a> {
    fn join(&mut self, future: plimsoll::Acquire<'a>, of: Vec<usize>) {
        let mut waiter = Waiter::unpolled(future);
        match waiter.look() {
            Poll::Ready(Ok(permit)) => self.held.push((permit, of)),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.waiting.push((waiter, 0, of)),
        }
    }

    /// Looks again at those who were woken, and at nobody else.
    fn run(&mut self) {
        let mut rounds = 0;
        while let Some(at) = self
            .waiting
            .iter()
            .position(|(waiter, heard, _)| waiter.woken() > *heard)
        {
            rounds += 1;
            assert!(rounds < 10_000, "they wake each other for ever");
            let (waiter, heard, _) = &mut self.waiting[at];
            *heard = waiter.woken();
            match waiter.look() {
                Poll::Ready(Ok(permit)) => {
                    let (_, _, of) = self.waiting.remove(at);
                    self.held.push((permit, of));
                }
                Poll::Ready(Err(reason)) => {
                    let lost = [Reason::TimedOut, Reason::Evicted];
                    assert!(lost.contains(&reason), "{reason}");
                    self.waiting.remove(at);
                }
                Poll::Pending => {}
            }
        }
    }

    /// What is in use is what was given to those who hold it, and to nobody else.
    fn check(&self, limiters: &[(u64, Arc<dyn Limiter>)]) {
        for (index, (kind, limiter)) in limiters.iter().enumerate() {
            if kind % 6 > 2 {
                continue;
            }
            let held = self.held.iter().map(|(permit, of)| {
                let times = of.iter().filter(|&&other| other == index).count() as u64;
                permit.cost() * times
            });
            assert_eq!(limiter.snapshot().in_use(), held.sum::<u64>());
        }
    }
}

fn run(kinds: &[u64], steps: Vec<Step>) {
    let time = ManualClock::new();
    let limiters: Vec<_> = kinds
        .iter()
        .map(|&kind| (kind, limiter(kind, &time)))
        .collect();
    let alls: Vec<(All, Vec<usize>)> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Several(which, _) => {
                let of: Vec<usize> = which.iter().map(|index| index % kinds.len()).collect();
                let members = of.iter().map(|&index| Arc::clone(&limiters[index].1));
                Some((All::new(members), of))
            }
            _ => None,
        })
        .collect();
    let mut next = alls.iter();
    let mut crowd = Crowd {
        waiting: Vec::new(),
        held: Vec::new(),
    };
    for step in steps {
        match step {
            Step::One(which, ask) => {
                let which = which % kinds.len();
                crowd.join(limiters[which].1.acquire(ask.demand()), vec![which]);
            }
            Step::Several(_, ask) => {
                let (all, of) = next.next().unwrap();
                crowd.join(all.acquire(ask.demand()), of.clone());
            }
            Step::GiveUp(which) if which < crowd.waiting.len() => drop(crowd.waiting.remove(which)),
            Step::GiveBack(which) if which < crowd.held.len() => drop(crowd.held.remove(which)),
            Step::GiveUp(_) | Step::GiveBack(_) => {}
            Step::Advance(millis) => time.advance(Duration::from_millis(millis)),
        }
        crowd.run();
        crowd.check(&limiters);
    }
    // When everything comes back everybody is served.
    for _ in 0..500 {
        crowd.held.clear();
        crowd.run();
        time.advance(Duration::from_millis(700));
        crowd.run();
        crowd.check(&limiters);
        if crowd.waiting.is_empty() {
            break;
        }
    }
    assert!(
        crowd.waiting.is_empty(),
        "{} were forgotten",
        crowd.waiting.len()
    );
    crowd.held.clear();
    for (_, limiter) in &limiters {
        let seen = limiter.snapshot();
        assert_eq!((seen.waiters(), seen.queued()), (0, 0));
    }
    crowd.check(&limiters);
}

/// How long one who waits for `cost` of all of these has to wait, with a steady queue at each, if in each round one permit
/// comes back to each and another asks for it.
fn rounds_of_steady_queues(limits: &[(u64, u64)], cost: u64) -> Option<u64> {
    let time = ManualClock::new();
    let gates: Vec<_> = limits
        .iter()
        .map(|&(limit, _)| {
            let builder = Gate::builder(Concurrency::new(limit)).queue(Queue::fifo(100_000));
            Arc::new(builder.clock(time.clock()).build())
        })
        .collect();
    let all = All::new(
        gates
            .iter()
            .map(|gate| Arc::clone(gate) as Arc<dyn Limiter>),
    );
    let mut crowd = Crowd {
        waiting: Vec::new(),
        held: Vec::new(),
    };
    for (index, &(limit, older)) in limits.iter().enumerate() {
        for _ in 0..limit + older {
            crowd.join(gates[index].acquire(1), vec![index]);
        }
    }
    let mut waiter = Waiter::new(all.acquire(cost));
    let mut heard = 0;
    for round in 0..1000 {
        for (index, gate) in gates.iter().enumerate() {
            crowd.join(gate.acquire(1), vec![index]);
            if let Some(at) = crowd.held.iter().position(|(_, of)| of[0] == index) {
                drop(crowd.held.remove(at));
            }
            // Whoever is woken by one that comes back has taken it when the next comes back.
            crowd.run();
            if waiter.woken() > heard {
                heard = waiter.woken();
                if waiter.look().is_ready() {
                    return Some(round);
                }
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_forgotten_and_nothing_is_held_by_those_who_wait(
        kinds in prop::collection::vec(0..40_u64, 1..5),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        run(&kinds, steps);
    }

    /// It was passed by everybody who came later.
    #[test]
    fn steady_queues_are_passed_in_bounded_time(
        limits in prop::collection::vec((1..4_u64, 0..5_u64), 2..5),
        cost in 1..4_u64,
    ) {
        let least = limits.iter().map(|(limit, _)| *limit).min().unwrap();
        let cost = cost.min(least);
        let rounds = rounds_of_steady_queues(&limits, cost).expect("it is served");
        // At each it waits for those who were there before it, and for as many as it needs to come back.
        let bound: u64 = limits.iter().map(|(_, older)| older + cost + 1).sum();
        prop_assert!(rounds <= bound, "{} rounds, expected at most {}", rounds, bound);
    }
}
