//! What one process saves and another restores goes on as if the process had stayed: nothing is granted that would not have been.

use std::time::Duration;

use plimsoll::ManualClock;
use plimsoll_config::{Config, Format};
use plimsoll_engine::{Ask, BucketParams, Limits, Parametric, Saved, SavedBucket};
use proptest::prelude::*;

/// Every kind that remembers something, with keys and without; the first ones have no tiers.
const FILE: &str = "limits:
  one: { kind: token_bucket, burst: 5, refill: 3, every: 1s }
  fixed: { kind: fixed_window, limit: 5, window: 1s, key: client }
  aligned: { kind: fixed_window, limit: 5, window: 1s, align: epoch, key: client }
  sliding: { kind: sliding_window, limit: 5, window: 1s, segments: 4, key: client }
  log: { kind: sliding_log, limit: 5, window: 1s, min_gap: 50ms, count_denied: true, key: client }
  counter: { kind: sliding_counter, limit: 5, window: 1s, key: client }
  bucket: { kind: token_bucket, burst: 5, refill: 3, every: 1s, key: client }
  interval: { kind: token_bucket, burst: 5, refill: 5, every: 1s, style: interval, initial: 2, key: client }
  two: { kind: bandwidths, limits: [{ id: x, burst: 5, refill: 3, every: 1s }, { id: y, burst: 9, refill: 4, every: 3s }], key: client }
  bursty: { kind: smooth_bursty, rate: 4, key: client }
  warmup: { kind: smooth_warmup, rate: 4, warmup: 2s, key: client }
  refresh: { kind: refresh, limit: 5, period: 1s, max_wait: 700ms, key: client }
  penalty: { kind: penalty_bucket, burst: 5, refill: 3, soft_limit: 2, soft_window: 1s, lockout: 2s, key: client }
  shadow: { kind: fixed_window, limit: 5, window: 1s, mode: shadow, key: client }
  packets:
    kind: policies
    key: client
    max_soft_violations: 2
    lockout: 3s
    initial_tokens: 1
    handlers: { a: { rps: 1, burst: 4 }, b: { rps: 2, burst: 4 } }
  tiered:
    kind: token_bucket
    burst: 5
    refill: 3
    every: 1s
    key: client
    tiers:
      by: header:x-plan
      pro: { kind: fixed_window, limit: 8, window: 2s }
      small: { kind: sliding_log, limit: 2, window: 3s }
      free: unlimited
      none: blocked
    overrides: { c: { kind: token_bucket, burst: 9, refill: 1, every: 1s } }
";

const NAMES: [&str; 16] = [
    "one", "fixed", "aligned", "sliding", "log", "counter", "bucket", "interval", "two", "bursty",
    "warmup", "refresh", "penalty", "shadow", "packets", "tiered",
];
const KEYS: [&str; 4] = ["a|x", "b|x", "c", "d"];
const TIERS: [Option<&str>; 5] = [None, Some("pro"), Some("small"), Some("free"), Some("none")];

#[derive(Clone, Debug)]
struct Step {
    millis: u64,
    limit: usize,
    key: usize,
    tier: usize,
    cost: u64,
    charges: bool,
}

impl Step {
    fn ask(&self) -> Ask<'static> {
        let mut ask = Ask::new(NAMES[self.limit]).cost(self.cost);
        if self.limit > 0 {
            ask = ask.key(KEYS[self.key]);
        }
        ask.tier = TIERS[self.tier];
        ask
    }
}

fn step(limits: std::ops::Range<usize>) -> impl Strategy<Value = Step> {
    let parts = (
        0_u64..500,
        limits,
        0..KEYS.len(),
        0..TIERS.len(),
        1_u64..4,
        proptest::bool::weighted(0.1),
    );
    parts.prop_map(|(millis, limit, key, tier, cost, charges)| Step {
        millis,
        limit,
        key,
        tier,
        cost,
        charges,
    })
}

/// All steps of a case are of a few limits, so that something is used up.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    (0..NAMES.len()).prop_flat_map(|limit| proptest::collection::vec(step(limit..limit + 1), 1..40))
}

/// Whether it is granted, and what is left then.
fn ask(limits: &Limits, step: &Step) -> (bool, Option<u64>) {
    let ask = step.ask();
    if step.charges {
        limits.charge(&[ask]);
    }
    match limits.try_decide(&[ask]) {
        Ok(hold) => {
            let standing = hold.answers().next().and_then(|answer| answer.standing);
            (true, standing.and_then(|it| it.remaining))
        }
        Err(refusal) => {
            let standing = refusal.answers().next().and_then(|answer| answer.standing);
            (false, standing.and_then(|it| it.remaining))
        }
    }
}

fn restarted(config: &Config, time: &ManualClock, limits: &Limits) -> Limits {
    let mut texts = Vec::new();
    let saved = limits.save(|it| serde_json::to_string(&it).map(|text| texts.push(text)));
    saved.expect("it is written");
    let read = |text: &String| serde_json::from_str(text).expect("it is read");
    let saved: Vec<Saved> = texts.iter().map(read).collect();
    let built = config.build_saved(&time.clock(), &saved).expect("builds");
    let after = Limits::of(built);
    let mut restore = after.restore();
    for (it, text) in saved.into_iter().zip(&texts) {
        assert!(restore.put(it), "{text}");
    }
    after
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_restart_changes_no_answer(
        steps in steps(),
        last in step(0..1),
        start in 0_u64..5_000_000_000,
    ) {
        let time = ManualClock::new();
        time.advance(Duration::from_nanos(start));
        let config = Config::from_str("limits.yaml", FILE, Format::Yaml).expect("a file");
        let stays = Limits::new(&config, &time.clock()).expect("builds");
        let limit = steps[0].limit;
        for step in &steps {
            time.advance(Duration::from_millis(step.millis));
            ask(&stays, step);
        }
        let after = restarted(&config, &time, &stays);
        let last = Step { limit, ..last };
        time.advance(Duration::from_millis(last.millis));
        let (with, without) = (ask(&after, &last), ask(&stays, &last));
        prop_assert_eq!(with, without);
    }

    /// Of buckets whose params come with the ask.
    #[test]
    fn nor_of_buckets_with_terms_of_their_own(
        asked in proptest::collection::vec((0_u64..2000, 0..3_usize, 0..3_usize, 1_u64..4), 1..30),
        later in proptest::collection::vec((0_u64..2000, 0..3_usize, 0..3_usize, 1_u64..4), 1..10),
    ) {
        let params = [(3, 1), (5, 2), (9, 7)];
        let params = params.map(|(burst, refill)| BucketParams::new(burst, refill, Duration::from_secs(2)));
        let time = ManualClock::new();
        let stays = Parametric::new(time.clock(), 1000);
        let take = |buckets: &Parametric, (_, key, by, cost): (u64, usize, usize, u64)| {
            buckets.take(KEYS[key], params[by], cost).expect("params").ok().and_then(|it| it.remaining)
        };
        for it in asked {
            time.advance(Duration::from_millis(it.0));
            take(&stays, it);
        }
        let mut saved: Vec<SavedBucket> = Vec::new();
        let kept = stays.save(|it| {
            saved.push(it);
            Ok::<(), ()>(())
        });
        kept.expect("it is kept");
        let after = Parametric::new(time.clock(), 1000);
        let mut known = None;
        for it in saved {
            let (next, restored) = after.restore(known, it);
            prop_assert!(restored);
            known = next;
        }
        for it in later {
            time.advance(Duration::from_millis(it.0));
            let (with, without) = (take(&after, it), take(&stays, it));
            // Found by this test: a restart left less than there was for a key whose last bucket was full again, because
            // what it had used by the first params, long before, was carried over in its place.
            prop_assert_eq!(with, without);
        }
    }
}

/// What cannot be saved is named, with its number.
#[test]
fn what_is_forgotten_is_said() {
    let text = "limits:
  slots: { concurrency: 10, key: client }
  shares: { kind: partitions, limit: 10, shares: { a: 1, b: 1 }, key: client }
  found: { kind: adaptive, algorithm: aimd, min: 1, initial: 10, max: 100, key: client }
  idle: { concurrency: 10 }
";
    let (limits, _time) = crate::limits(text);
    let asks = [
        Ask::new("slots").key("a").cost(3),
        Ask::new("shares").key("a").cost(2),
        Ask::new("found").key("a"),
    ];
    let _held = limits.try_decide(&asks).expect("there is room");
    let mut left = Vec::new();
    let saved = limits.limiters().save(|saved| {
        if let Saved::LeftOut {
            limiter,
            permits,
            learned,
        } = saved
        {
            left.push((limiter, permits, learned));
        }
        Ok::<(), ()>(())
    });
    saved.expect("it is kept");
    left.sort();
    let expected = [("found", 1, 1), ("shares", 2, 0), ("slots", 3, 0)];
    assert_eq!(
        left,
        expected.map(|(limit, permits, learned)| (limit.to_owned(), permits, learned))
    );
}
