//! What is saved by one process and put into the limits of another goes on as if nothing had happened.

use std::time::Duration;

use plimsoll::{Denied, LimiterExt, ManualClock};
use plimsoll_config::{Config, Format, Limits, Saved};
use proptest::prelude::*;

const RATES: [&str; 14] = [
    "kind: fixed_window, limit: 5, window: 1s",
    "kind: fixed_window, limit: 5, window: 1s, align: epoch",
    "kind: sliding_window, limit: 5, window: 1s, segments: 4",
    "kind: sliding_window, limit: 50, window: 1s, segments: 7",
    "kind: sliding_log, limit: 5, window: 1s",
    "kind: sliding_log, limit: 5, window: 1s, min_gap: 50ms, count_denied: true",
    "kind: sliding_counter, limit: 5, window: 1s",
    "kind: token_bucket, burst: 5, refill: 3, every: 1s",
    "kind: token_bucket, burst: 5, refill: 5, every: 1s, style: interval, initial: 2",
    "kind: bandwidths, limits: [{ id: x, burst: 5, refill: 3, every: 1s }, { id: y, burst: 9, refill: 4, every: 3s }]",
    "kind: smooth_bursty, rate: 4",
    "kind: smooth_warmup, rate: 4, warmup: 2s",
    "kind: refresh, limit: 5, period: 1s, max_wait: 700ms",
    "kind: penalty_bucket, burst: 5, refill: 3, soft_limit: 2, soft_window: 1s, lockout: 2s",
];

fn config(one: &str, keyed: &str) -> Config {
    let text = format!("limiters: {{ one: {{ {one} }}, keys: {{ {keyed}, keyed: true }} }}");
    Config::from_str("a.yaml", &text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"))
}

/// What is saved, as the text it is kept as.
fn save(limits: &Limits) -> Vec<String> {
    let mut saved = Vec::new();
    let kept = limits.save(|it| serde_json::to_string(&it).map(|text| saved.push(text)));
    kept.expect("it is written");
    saved
}

fn restore(config: &Config, time: &ManualClock, saved: &[String]) -> Limits {
    let read = |text: &String| serde_json::from_str(text).expect("it is read");
    let heads: Vec<Saved> = saved.iter().map(read).collect();
    let limits = config.build_saved(&time.clock(), &heads).expect("builds");
    let mut restore = limits.restore();
    for it in heads {
        restore.put(it);
    }
    limits
}

#[derive(Clone, Debug)]
struct Step {
    millis: u64,
    /// Of the limiter without keys, or of one of three keys.
    of: Option<u8>,
    cost: u64,
    charges: bool,
    restarts: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        0_u64..700,
        proptest::option::of(0_u8..3),
        1_u64..7,
        proptest::bool::weighted(0.1),
        proptest::bool::weighted(0.2),
    );
    let step = step.prop_map(|(millis, of, cost, charges, restarts)| Step {
        millis,
        of,
        cost,
        charges,
        restarts,
    });
    proptest::collection::vec(step, 1..60)
}

/// The answer, and what is left then.
fn ask(limits: &Limits, step: &Step) -> (Result<(), Denied>, String) {
    if let Some(key) = step.of {
        let keys = limits.keyed("keys").expect("it is there");
        let key = format!("key {key}");
        if step.charges {
            plimsoll::PerKey::charge(&keys, key.as_str(), step.cost);
        }
        let answer = keys.try_acquire(&key, step.cost).map(drop);
        let standing = plimsoll::PerKey::standing(&keys, key.as_str());
        (answer, format!("{standing:?}"))
    } else {
        let one = limits.limiter("one").expect("it is there");
        if step.charges {
            one.shared().charge(step.cost);
        }
        let answer = one.try_acquire(step.cost.into()).map(drop);
        (answer, format!("{:?}", one.shared().standing()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_rate_goes_on_as_if_nothing_had_happened(
        one in 0..RATES.len(),
        keyed in 0..RATES.len(),
        steps in steps(),
        start in 0_u64..5_000_000_000,
    ) {
        let time = ManualClock::new();
        time.advance(Duration::from_nanos(start));
        let config = config(RATES[one], RATES[keyed]);
        let stays = config.build(&time.clock()).expect("builds");
        let mut restarts = config.build(&time.clock()).expect("builds");
        for step in steps {
            let saved = step.restarts.then(|| save(&restarts));
            time.advance(Duration::from_millis(step.millis));
            if let Some(saved) = saved {
                restarts = restore(&config, &time, &saved);
            }
            prop_assert_eq!(ask(&stays, &step), ask(&restarts, &step), "{:?}", step);
        }
    }

    /// Of another description what was used stays used, as it does when a file is read again.
    #[test]
    fn what_was_used_stays_used_by_another_description(
        from in 0..RATES.len(),
        to in 0..RATES.len(),
        cost in 1_u64..6,
    ) {
        let time = ManualClock::new();
        let (from, to) = (config(RATES[from], RATES[from]), config(RATES[to], RATES[to]));
        let live = from.build(&time.clock()).expect("builds");
        let before = from.build(&time.clock()).expect("builds");
        for limits in [&live, &before] {
            drop(limits.limiter("one").expect("it is there").try_acquire(cost.into()));
            drop(limits.keyed("keys").expect("it is there").try_acquire("a", cost));
        }
        live.replace(&to).expect("it can be replaced");
        let after = restore(&to, &time, &save(&before));
        let used = |limits: &Limits| {
            let keys = limits.keyed("keys").expect("it is there");
            let of_key = keys.snapshot_of("a").map_or(0, |seen| seen.in_use());
            let one = limits.limiter("one").expect("it is there");
            (one.shared().snapshot().in_use(), of_key)
        };
        prop_assert_eq!(used(&live), used(&after));
    }
}

#[test]
fn a_limit_that_was_found_is_where_the_search_goes_on() {
    let text =
        "limiters: { a: { kind: adaptive, algorithm: aimd, min: 1, initial: 10, max: 100 } }";
    let config = Config::from_str("a.yaml", text, Format::Yaml).expect("a file");
    let time = ManualClock::new();
    let limits = config.build(&time.clock()).expect("builds");
    let a = limits.limiter("a").expect("it is there");
    a.try_acquire(1.into())
        .expect("there is room")
        .finish(plimsoll::Outcome::Overload);
    let found = a.shared().snapshot().limit();
    assert!(found < 10, "{found}");
    let after = restore(&config, &time, &save(&limits));
    let a = after.limiter("a").expect("it is there");
    assert_eq!(a.shared().snapshot().limit(), found);
}

/// Limiters that are gone, have other keys or are of another class have no place for it.
#[test]
fn what_has_no_place_any_more_is_left_out() {
    let time = ManualClock::new();
    let rate = "kind: token_bucket, burst: 5, refill: 3, every: 1s";
    let limits = config(rate, rate).build(&time.clock()).expect("builds");
    drop(
        limits
            .limiter("one")
            .expect("it is there")
            .try_acquire(5.into()),
    );
    let text = "limiters: { one: { kind: concurrency, limit: 5 } }";
    let other = Config::from_str("a.yaml", text, Format::Yaml).expect("a file");
    let after = restore(&other, &time, &save(&limits));
    let one = after.limiter("one").expect("it is there");
    assert_eq!(one.shared().snapshot().in_use(), 0);
}

/// A state that no rule of the limiter can have had is not put into it.
#[test]
fn a_state_that_cannot_be_is_refused() {
    let time = ManualClock::new();
    let kind = "kind: sliding_window, limit: 5, window: 1s, segments: 4";
    let limits = config(kind, kind).build(&time.clock()).expect("builds");
    let saved = save(&limits);
    assert!(saved[0].contains("[0,0,0,0]"), "{}", saved[0]);
    for counts in ["[0,0]", "[0,0,0,9]", "[18446744073709551615,1,0,0]"] {
        let wrong = saved[0].replace("[0,0,0,0]", counts);
        let wrong: Saved = serde_json::from_str(&wrong).expect("it is read");
        assert!(!limits.restore().put(wrong), "{counts}");
    }
}
