//! Limits that move do what was published, refuse settings that cannot be, and survive whatever the world
//! feeds them.

#[path = "../counting/mod.rs"]
mod counting;
mod in_the_wild;
mod published;
mod settings;
mod whatever_comes;

use std::time::Duration;

use counting::allocations;
use plimsoll::adaptive::{
    Aimd, Builder, Gradient2, Insight, LatencyGradient, Limit, Load, Sample, Vegas, Windowed,
};
use plimsoll::{InvalidLimit, Moment};
use proptest::prelude::*;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLI;
const HOUR: u64 = 3600 * SECOND;

fn sample(start: u64, latency: u64, in_flight: u64) -> Sample {
    let end = start.saturating_add(latency);
    Sample::new(
        Moment::from_nanos(start),
        Moment::from_nanos(end),
        in_flight,
    )
}

/// Work that took so many milliseconds.
fn took(millis: u64, in_flight: u64) -> Sample {
    sample(0, millis * MILLI, in_flight)
}

fn overload(sample: Sample) -> Sample {
    sample.overload(true)
}

fn load(in_flight: u64, queued: u64) -> Load {
    Load::new(Moment::ORIGIN, in_flight, queued)
}

fn after(limit: &mut impl Limit, samples: &[Sample]) -> u64 {
    for sample in samples {
        limit.sample(sample);
    }
    limit.limit()
}

/// Every algorithm, by itself and behind windows.
fn all(min: u64, initial: u64, max: u64) -> Vec<Box<dyn Limit>> {
    fn both(limit: impl Limit + Clone) -> [Box<dyn Limit>; 2] {
        [Box::new(Windowed::new(limit.clone())), Box::new(limit)]
    }
    let aimd = Aimd::builder().min(min).initial(initial).max(max);
    let vegas = Vegas::builder().min(min).initial(initial).max(max);
    let gradient2 = Gradient2::builder().min(min).initial(initial).max(max);
    let latency = LatencyGradient::builder()
        .min(min)
        .initial(initial)
        .max(max);
    [
        both(aimd.build().expect("settings that can be")),
        both(vegas.build().expect("settings that can be")),
        both(gradient2.build().expect("settings that can be")),
        both(latency.build().expect("settings that can be")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn a_boxed_limit_is_the_limit_itself() {
    let mut plain = LatencyGradient::default();
    let mut boxed: Box<dyn Limit> = Box::new(Box::new(LatencyGradient::default()));
    for limit in [&mut plain as &mut dyn Limit, &mut boxed] {
        limit.sample(&took(10, 5));
        limit.tick(load(5, 500));
    }
    assert_eq!(boxed.limit(), plain.limit());
    assert_eq!(boxed.queue_bound(), plain.queue_bound());
    assert_eq!(boxed.tick_every(), plain.tick_every());
    assert_eq!(boxed.insight(), plain.insight());
    assert_eq!(boxed.insight().baseline, Some(Duration::from_millis(10)));
}

#[test]
fn learning_allocates_nothing() {
    for mut limit in all(1, 20, 200) {
        let mut feed = || {
            for n in 0..10_000 {
                let in_flight = limit.limit();
                limit.sample(&sample(n * MILLI, (1 + n % 7) * MILLI, in_flight));
                limit.tick(load(in_flight, 1));
                let _ = limit.insight();
            }
        };
        assert_eq!(allocations(&mut feed), 0);
    }
}
