//! Random reservations on buckets, against the rules for debt and for cancelling as they are written in
//! the vocabulary of limits, followed word by word.

use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use plimsoll::{Demand, Gate, ManualClock, Quota, Reservation, TokenBucket};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// A bucket that may owe.
struct Naive {
    style: Style,
    burst: i128,
    refill: i128,
    every: i128,
    /// Tokens, times `every` for the greedy style.
    level: i128,
    now: i128,
    booked: Vec<Booked>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Style {
    Greedy,
    Interval,
}

struct Booked {
    cost: i128,
    ready_at: i128,
    waits: bool,
    stands: bool,
}

impl Naive {
    fn token(&self) -> i128 {
        match self.style {
            Style::Greedy => self.every,
            Style::Interval => 1,
        }
    }

    fn add(&mut self, amount: i128) {
        self.level = (self.level + amount).min(self.burst * self.token());
    }

    fn advance(&mut self, by: i128) {
        let gained = match self.style {
            Style::Greedy => by * self.refill,
            Style::Interval => ((self.now + by) / self.every - self.now / self.every) * self.refill,
        };
        self.add(gained);
        self.now += by;
    }

    /// When there are so many tokens if nobody takes any.
    fn when(&self, cost: i128) -> i128 {
        let missing = cost * self.token() - self.level;
        if missing <= 0 {
            return self.now;
        }
        let steps = (missing + self.refill - 1) / self.refill;
        match self.style {
            Style::Greedy => self.now + steps,
            Style::Interval => (self.now / self.every + steps) * self.every,
        }
    }

    fn reserve(&mut self, cost: i128, longest: i128) -> Option<i128> {
        let ready_at = self.when(cost);
        if cost > self.burst || ready_at - self.now > longest {
            return None;
        }
        self.level -= cost * self.token();
        self.booked.push(Booked {
            cost,
            ready_at,
            waits: ready_at > self.now,
            stands: true,
        });
        Some(ready_at)
    }

    fn cancel(&mut self, id: usize) {
        self.booked[id].stands = false;
        if self.now > self.booked[id].ready_at {
            return;
        }
        let later = &self.booked[id + 1..];
        let latest = later.iter().rposition(|one| one.waits && one.stands);
        let behind = &later[..latest.map_or(0, |at| at + 1)];
        let behind: i128 = behind
            .iter()
            .filter(|one| one.waits)
            .map(|one| one.cost)
            .sum();
        let back = (self.booked[id].cost - behind).max(0);
        self.add(back * self.token());
    }
}

#[derive(Clone, Debug)]
enum Op {
    Reserve(u64, Option<u64>),
    Cancel(usize),
    Use(usize),
    Try(u64),
    Advance(u64),
}

fn reserve() -> impl Strategy<Value = Op> {
    let longest = proptest::option::weighted(0.2, 0u64..100);
    (1u64..9, longest).prop_map(|(cost, longest)| Op::Reserve(cost, longest))
}

fn other() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => any::<usize>().prop_map(Op::Use),
        2 => (1u64..9).prop_map(Op::Try),
        3 => (0u64..60).prop_map(Op::Advance),
    ]
}

fn some_of(op: impl Strategy<Value = Op>) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![3 => op, 2 => other()];
    proptest::collection::vec(op, 1..40)
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    style: Style,
    burst: u64,
    refill: u64,
    every: u64,
}

fn kind() -> impl Strategy<Value = Kind> {
    let style = prop_oneof![Just(Style::Greedy), Just(Style::Interval)];
    let kind = (style, 1u64..9, 1u64..9, 1u64..40);
    kind.prop_map(|(style, burst, refill, every)| Kind {
        style,
        burst,
        refill,
        every,
    })
}

fn check(kind: Kind, ops: &[Op]) {
    let time = ManualClock::new();
    let quota = Quota::new(kind.refill, Duration::from_nanos(kind.every));
    let rule = match kind.style {
        Style::Greedy => TokenBucket::greedy(quota),
        Style::Interval => TokenBucket::interval(quota),
    };
    let rule = rule.burst(kind.burst);
    let gate = Gate::builder(rule).clock(time.clock()).build();
    let mut naive = Naive {
        style: kind.style,
        burst: kind.burst.into(),
        refill: kind.refill.into(),
        every: kind.every.into(),
        level: 0,
        now: 0,
        booked: Vec::new(),
    };
    naive.add(i128::MAX / 2);
    run(naive, &gate, &time, ops);
}

fn run(mut naive: Naive, gate: &Gate<TokenBucket>, time: &ManualClock, ops: &[Op]) {
    // One for each of the naive; those used or cancelled are gone.
    let mut held: Vec<Option<Reservation<'_>>> = Vec::new();
    for op in ops {
        match *op {
            Op::Reserve(cost, longest) => {
                let demand = longest.map_or(Demand::of(cost), |longest| {
                    Demand::of(cost).within(Duration::from_nanos(longest))
                });
                let expected = naive.reserve(cost.into(), longest.map_or(i128::MAX, i128::from));
                let reserved = gate.reserve(demand).ok();
                let ready_at = reserved.as_ref().and_then(Reservation::ready_at);
                assert_eq!(
                    ready_at.map(|at| i128::from(at.as_nanos())),
                    expected,
                    "{op:?}"
                );
                held.extend(reserved.map(Some));
            }
            Op::Cancel(which) => {
                let which = which % held.len().max(1);
                if let Some(reserved) = held.get_mut(which).and_then(Option::take) {
                    drop(reserved);
                    naive.cancel(which);
                }
            }
            Op::Use(which) => {
                let which = which % held.len().max(1);
                if let Some(reserved) = held.get_mut(which).and_then(Option::as_mut) {
                    let due = naive.booked[which].ready_at <= naive.now;
                    let polled = poll(reserved);
                    assert_eq!(matches!(polled, Poll::Ready(Ok(_))), due, "{op:?}");
                    if due {
                        held[which] = None;
                    }
                }
            }
            Op::Try(cost) => {
                let ready_at = naive.when(cost.into());
                let fits = ready_at == naive.now && i128::from(cost) <= naive.burst;
                match gate.try_acquire(cost) {
                    Ok(_) => naive.level -= i128::from(cost) * naive.token(),
                    Err(denied) if i128::from(cost) <= naive.burst => {
                        let after = denied.retry_after().map(|after| after.as_nanos());
                        let expected = (ready_at - naive.now).unsigned_abs();
                        assert_eq!(after, Some(expected), "{op:?}");
                        assert!(!fits, "{op:?}");
                    }
                    Err(_) => {}
                }
            }
            Op::Advance(by) => {
                time.advance(Duration::from_nanos(by));
                naive.advance(by.into());
            }
        }
        let available = naive.level.max(0) / naive.token();
        assert_eq!(i128::from(gate.snapshot().available()), available, "{op:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn buckets_owe_and_forgive_by_the_book(
        kind in kind(),
        mut ops in some_of(reserve()),
        then in some_of(any::<usize>().prop_map(Op::Cancel)),
    ) {
        ops.extend(then);
        check(kind, &ops);
    }

    #[test]
    fn buckets_forgive_by_the_book_whoever_reserves_afterwards(
        kind in kind(),
        ops in some_of(prop_oneof![3 => reserve(), 2 => any::<usize>().prop_map(Op::Cancel)]),
    ) {
        check(kind, &ops);
    }
}

#[test]
fn what_was_cancelled_before_the_last_that_stands_still_counts() {
    //  reserve (cost) or cancel (which), tokens after cancelling the first of all
    let cases: [(&[Result<u64, usize>], u64); 2] = [
        (&[Ok(5), Ok(1), Err(1), Ok(1)], 2),
        (
            &[
                Ok(4),
                Ok(1),
                Ok(1),
                Ok(1),
                Err(2),
                Ok(1),
                Err(3),
                Err(4),
                Ok(1),
                Ok(1),
            ],
            0,
        ),
    ];
    for (steps, expected) in cases {
        let time = ManualClock::new();
        let rule = TokenBucket::per_second(1).burst(5);
        let gate = Gate::builder(rule).clock(time.clock()).build();
        let mut held = Vec::new();
        for step in steps {
            match *step {
                Ok(cost) => held.push(gate.reserve(cost).ok()),
                Err(which) => drop(held[which].take()),
            }
        }
        drop(held[0].take());
        assert_eq!(gate.snapshot().available(), expected, "{steps:?}");
    }
}
