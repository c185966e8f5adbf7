//! A call that does nothing, limited by what a provider has for its weight, beside the limiter alone.

use std::hint::black_box;

use plimsoll::{Concurrency, Denied, Gate, Rule, TokenBucket};
use plimsoll_kinds::{Provider, Weight};

use crate::asking::{Trial, asked};
use crate::contender::Contender;
use crate::contender::Role::{Floor, Ours};
use crate::report::Case;
use crate::targets::{Target, at_most};

pub(crate) const RATE: &str = "limited call, a rate";
pub(crate) const RESOURCE: &str = "limited call, a resource";
const FOUR: &str = "limited call, four weights";
const RATE_ALONE: &str = "the rate alone";
const RESOURCE_ALONE: &str = "the resource alone";
const FOUR_ALONE: &str = "the four alone, one after the other";

const PLENTY: u64 = 1_000_000_000;
const COUNT: [(Weight, u64); 1] = [(Weight::REQUEST_COUNT, 1)];
const ALL: [(Weight, u64); 4] = [
    (Weight::REQUEST_COUNT, 1),
    (Weight::REQUEST_ITEMS, 1),
    (Weight::NETWORK_BYTES, 1),
    (Weight::MEMORY_SIZE, 1),
];

fn rate() -> Gate<TokenBucket> {
    Gate::new(TokenBucket::per_second(PLENTY))
}

fn resource() -> Gate<Concurrency> {
    Gate::new(Concurrency::new(1000))
}

fn provider<R: Rule>(gate: Gate<R>) -> Provider {
    let provider = Provider::builder().limit(Weight::REQUEST_COUNT, gate);
    provider.build().expect("one weight")
}

fn four() -> (
    Gate<TokenBucket>,
    Gate<TokenBucket>,
    Gate<TokenBucket>,
    Gate<Concurrency>,
) {
    (rate(), rate(), rate(), resource())
}

fn call(provider: &Provider, costs: &[(Weight, u64)]) -> bool {
    let nothing = || Ok::<_, Denied>(black_box(1));
    provider.limit_call(black_box(costs), nothing).is_ok()
}

pub(crate) fn contenders() -> Vec<Contender<Trial>> {
    vec![
        asked(Ours, RATE, |_| provider(rate()), |it| call(it, &COUNT)),
        asked(
            Ours,
            RESOURCE,
            |_| provider(resource()),
            |it| call(it, &COUNT),
        ),
        asked(
            Ours,
            FOUR,
            |_| {
                let (one, two, three, four) = four();
                let provider = Provider::builder()
                    .limit(Weight::REQUEST_COUNT, one)
                    .limit(Weight::REQUEST_ITEMS, two)
                    .limit(Weight::NETWORK_BYTES, three)
                    .limit(Weight::MEMORY_SIZE, four);
                provider.build().expect("four weights")
            },
            |it| call(it, &ALL),
        ),
        asked(
            Floor,
            RATE_ALONE,
            |_| rate(),
            |it| black_box(&it.try_acquire(1)).is_ok(),
        ),
        asked(
            Floor,
            RESOURCE_ALONE,
            |_| resource(),
            |it| black_box(&it.try_acquire(1)).is_ok(),
        ),
        asked(
            Floor,
            FOUR_ALONE,
            |_| four(),
            |(one, two, three, four)| {
                let all = (one.try_acquire(1), two.try_acquire(1), three.try_acquire(1));
                let (one, two, three) = black_box(&all);
                let four = four.try_acquire(1);
                one.is_ok() && two.is_ok() && three.is_ok() && black_box(&four).is_ok()
            },
        ),
    ]
}

/// What looking up a weight and limiting a call adds to the limiter.
pub(crate) fn targets(cases: &[Case]) -> Vec<Target> {
    let pairs = [(RATE, RATE_ALONE), (RESOURCE, RESOURCE_ALONE)];
    let costs = cases.iter().flat_map(|case| {
        pairs.into_iter().filter_map(|(call, alone)| {
            let cost = case.find(call)?.minus(case.find(alone)?);
            Some(at_most(&format!("{call} − alone"), cost, 30.0, " ns"))
        })
    });
    costs.collect()
}
