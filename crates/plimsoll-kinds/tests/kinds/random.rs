//! Random demands of several providers at once, against twins of their limiters that are asked one by one: a refusal
//! leaves no trace, and a grant is charged once to each.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{
    Clock, Concurrency, Demand, FixedWindow, Gate, Limiter, LimiterExt, ManualClock, Permit, Quota,
    Rule, SlidingWindow, TokenBucket,
};
use plimsoll_kinds::{AnyLimiter, Permits, Provider, Weight};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Ask(Vec<(usize, u64)>),
    Reserve(Vec<(usize, u64)>),
    Call(Vec<(usize, u64)>),
    GiveBack(usize),
    Undo(usize),
    Advance(u64),
}

const WEIGHTS: usize = 5;

fn weight(index: usize) -> Weight {
    match Weight::KNOWN.get(index) {
        Some(known) => *known,
        None => Weight::new("tokens"),
    }
}

fn costs() -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::vec((0..WEIGHTS, 0..6_u64), 0..5)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => costs().prop_map(Step::Ask),
        1 => costs().prop_map(Step::Reserve),
        1 => costs().prop_map(Step::Call),
        2 => (0..8_usize).prop_map(Step::GiveBack),
        1 => (0..8_usize).prop_map(Step::Undo),
        2 => (0..400_u64).prop_map(Step::Advance),
    ]
}

fn made<R: Rule>(rule: R, clock: &Clock) -> (AnyLimiter, Arc<dyn Limiter>) {
    let gate = Gate::builder(rule).clock(clock.clone()).build();
    (gate.clone().into(), Arc::new(gate))
}

/// A limiter under a weight, by a number that says which.
fn limiter(which: u64, clock: &Clock) -> (AnyLimiter, Arc<dyn Limiter>) {
    let units = 3 + which % 7;
    let quota = Quota::per_second(units);
    match which % 4 {
        0 => made(TokenBucket::greedy(quota), clock),
        1 => made(FixedWindow::new(quota), clock),
        2 => made(SlidingWindow::new(quota, 4), clock),
        _ => made(Concurrency::new(units), clock),
    }
}

/// A real limiter and its twin, in the order in which they are asked.
struct Pair {
    weight: usize,
    real: Arc<dyn Limiter>,
    twin: Arc<dyn Limiter>,
}

/// What is asked of each limiter of a weight.
fn asked(costs: &[(usize, u64)], weight: usize) -> Option<Demand> {
    let mut costs = costs
        .iter()
        .filter(|(index, _)| *index == weight)
        .peekable();
    costs.peek()?;
    Some(Demand::of(costs.map(|(_, cost)| cost).sum()))
}

/// Takes from all twins, if none is saturated and all would grant.
fn ask_twins<'a>(pairs: &'a [Pair], costs: &[(usize, u64)]) -> Option<Vec<Permit<'a>>> {
    let saturated = pairs
        .iter()
        .any(|pair| pair.twin.check_saturation().is_err());
    let asked: Vec<_> = pairs
        .iter()
        .filter_map(|pair| Some((&pair.twin, asked(costs, pair.weight)?)))
        .collect();
    let refused = asked
        .iter()
        .any(|(twin, demand)| twin.estimate(*demand).is_err());
    if saturated || refused {
        return None;
    }
    let take = |(twin, demand): (&'a Arc<dyn Limiter>, _)| twin.try_acquire(demand).ok();
    asked.into_iter().map(take).collect()
}

type Both<'a> = (Permits<'a>, Vec<Permit<'a>>);

/// What is reserved and given up counts in the totals, and nowhere else.
fn check(pairs: &[Pair], totals: bool) {
    for pair in pairs {
        let (real, twin) = (pair.real.snapshot(), pair.twin.snapshot());
        assert_eq!(
            real.available(),
            twin.available(),
            "{:?}",
            weight(pair.weight)
        );
        assert_eq!(real.in_use(), twin.in_use(), "{:?}", weight(pair.weight));
        if totals {
            assert_eq!(real.granted_total(), twin.granted_total());
        }
        assert_eq!(real.waiters(), 0);
    }
}

fn run(providers: &[Vec<(usize, u64)>], steps: Vec<Step>) {
    let time = ManualClock::new();
    let (mut pairs, mut parts) = (Vec::new(), Vec::new());
    for limits in providers {
        let mut builder = Provider::builder();
        let mut used = Vec::new();
        for &(index, which) in limits {
            if used.contains(&index) {
                continue;
            }
            used.push(index);
            let (any, real) = limiter(which, &time.clock());
            let (_, twin) = limiter(which, &time.clock());
            builder = builder.limit(weight(index), any);
            pairs.push(Pair {
                weight: index,
                real,
                twin,
            });
        }
        parts.push(builder.build().unwrap());
    }
    pairs.sort_by_key(|pair| pair.weight);
    // Adding a provider twice changes nothing.
    let again = parts.first().cloned();
    let provider = Provider::all(parts.into_iter().chain(again));

    let mut held: Vec<Both<'_>> = Vec::new();
    let mut totals = true;
    for step in steps {
        let named = |costs: &[(usize, u64)]| -> Vec<_> {
            let named = costs.iter().map(|(index, cost)| (weight(*index), *cost));
            named.collect()
        };
        match step {
            Step::Ask(costs) => {
                let real = provider.try_acquire(&named(&costs)[..]);
                let twins = ask_twins(&pairs, &costs);
                assert_eq!(real.is_ok(), twins.is_some(), "{real:?}");
                held.extend(real.ok().zip(twins));
            }
            Step::Reserve(costs) => {
                drop(provider.reserve(&named(&costs)[..]));
                totals = false;
            }
            Step::Call(costs) => {
                let called =
                    provider.limit_call_with(&named(&costs)[..], |()| Default::default(), || ());
                let twins = ask_twins(&pairs, &costs);
                assert_eq!(called.is_ok(), twins.is_some(), "{called:?}");
            }
            Step::GiveBack(index) if index < held.len() => drop(held.remove(index)),
            Step::Undo(index) if index < held.len() => {
                let (real, twins) = held.remove(index);
                real.undo();
                twins.into_iter().rev().for_each(Permit::undo);
            }
            Step::GiveBack(_) | Step::Undo(_) => {}
            Step::Advance(millis) => time.advance(Duration::from_millis(millis)),
        }
        check(&pairs, totals);
    }
    drop(held);
    check(&pairs, totals);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn several_providers_take_all_or_none_and_charge_once(
        providers in prop::collection::vec(prop::collection::vec((0..WEIGHTS, 0..28_u64), 0..5), 1..4),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        run(&providers, steps);
    }
}
