//! The same rule in memory and in Redis, asked the same at the same times, answers the same: decisions, reasons, times to
//! come back, and what is left, to the nanosecond.

use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::{
    Bandwidths, Concurrency, Demand, Denied, FixedWindow, Gate, ManualClock, Moment, Quota, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule, Store};
use proptest::prelude::*;
use tokio::runtime::Runtime;

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    /// Exactly as long as the last refusal said, or a nanosecond less.
    WaitAsTold {
        early: bool,
    },
    Try(u64),
    Estimate(u64),
    TakeUpTo(u64),
    Add(u64),
    /// Of buckets only.
    Reserve {
        cost: u64,
        longest: Option<u64>,
    },
}

fn steps(span: u64, limit: u64) -> impl Strategy<Value = Vec<Step>> {
    let cost = prop_oneof![
        6 => 0..=limit.saturating_add(1).min(5),
        2 => 0..=limit.saturating_add(1),
    ];
    let amount = cost.clone();
    let booked = cost.clone();
    let longest = prop::option::of(0..=span.saturating_mul(3));
    let most = cost.clone();
    let step = prop_oneof![
        4 => cost.clone().prop_map(Step::Try),
        1 => cost.prop_map(Step::Estimate),
        1 => most.prop_map(Step::TakeUpTo),
        1 => amount.prop_map(Step::Add),
        1 => (booked, longest).prop_map(|(cost, longest)| Step::Reserve { cost, longest }),
        1 => (0..=span).prop_map(Step::Wait),
        1 => (0..=span.saturating_mul(3)).prop_map(Step::Wait),
        1 => (0..=span / 10).prop_map(Step::Wait),
        2 => any::<bool>().prop_map(|early| Step::WaitAsTold { early }),
    ];
    prop::collection::vec(step, 1..40)
}

/// Limits and periods, from the everyday to the monstrous.
fn quotas() -> impl Strategy<Value = Quota> {
    let units =
        prop_oneof![6 => 1..20_u64, 2 => 1..10_000_u64, 1 => 1..1_u64 << 32, 1 => 1..1_u64 << 52];
    let nanos = prop_oneof![
        2 => (1..100_u64).prop_map(|n| n * 1_000_000_000),
        2 => (1..1000_u64).prop_map(|n| n * 1_000_000),
        1 => prop::sample::select(vec![1, 7, 1_000, 100_000_000, 86_400_000_000_000]),
        2 => 1..10_000_000_000_u64,
        1 => 1..4_000_000_000_000_000_000_u64 / 8,
    ];
    (units, nanos).prop_map(|(units, nanos)| Quota::new(units, Duration::from_nanos(nanos)))
}

fn buckets() -> impl Strategy<Value = TokenBucket> {
    let burst = prop_oneof![3 => 1..30_u64, 1 => 1..100_000_u64, 1 => 1..1_u64 << 52];
    (quotas(), burst, any::<bool>(), 0..4_u64).prop_filter_map(
        "so deep that it is never full in the lifetime of a clock",
        |(quota, burst, greedy, initial)| {
            let fill = u128::from(burst) * quota.period().as_nanos() / u128::from(quota.units());
            let bucket = if greedy {
                TokenBucket::greedy(quota)
            } else {
                TokenBucket::interval(quota)
            };
            let bucket = bucket.burst(burst);
            (fill < 1 << 60).then(|| match initial {
                0 => bucket.initial(0),
                1 => bucket.initial(burst / 2),
                _ => bucket,
            })
        },
    )
}

/// What a refusal says.
fn facts(denied: &Denied) -> impl PartialEq + std::fmt::Debug {
    (
        denied.reason(),
        denied.retry_after(),
        denied.limit(),
        denied.remaining(),
        denied.reset(),
        denied.limiter().map(str::to_owned),
    )
}

struct Pair<R: Rule> {
    clock: ManualClock,
    gate: Gate<R>,
    /// Whether it can be reserved ahead of time.
    books: bool,
    redis: RedisLimiter,
}

const KEY: &str = "subject";

impl<R: Rule + Clone + Into<RedisRule>> Pair<R> {
    async fn new(server: &Server, rule: R, start: u64) -> Self {
        let clock = ManualClock::starting_at(Moment::from_nanos(start));
        let now = clock.clock().now();
        let books = rule.book(&rule.fresh(now), now, 1).is_some();
        let gate = Gate::builder(rule.clone())
            .clock(clock.clock())
            .name("same");
        let store: Store = server.store().clock(clock.clock()).open().expect("a store");
        let redis = store.limiter("same", rule).expect("a limit for Redis");
        redis.forget(KEY).await.expect("forgetting");
        redis.begin(KEY).await.expect("a beginning");
        Self {
            clock,
            gate: gate.build(),
            books,
            redis,
        }
    }

    async fn run(&self, steps: &[Step]) -> Result<(), TestCaseError> {
        let mut told = Duration::ZERO;
        // Dropping them would cancel them.
        let mut reserved = Vec::new();
        for step in steps {
            match *step {
                Step::Wait(nanos) => self.clock.advance(Duration::from_nanos(nanos)),
                Step::WaitAsTold { early } => {
                    let early = Duration::from_nanos(u64::from(early));
                    self.clock.advance(told.saturating_sub(early));
                }
                Step::Try(cost) => {
                    let here = self.gate.try_acquire(cost).map(drop);
                    let there = self.redis.decide(KEY, cost).await.expect("a decision");
                    match (here, there) {
                        (Ok(()), Decision::Granted(permit)) => {
                            prop_assert_eq!(permit.cost(), cost);
                            let standing = self.gate.standing().window(None).returns(false);
                            prop_assert_eq!(permit.standing(), standing);
                        }
                        (Err(here), Decision::Denied(there)) => {
                            prop_assert_eq!(facts(&here), facts(&there));
                            told = here.retry_after().unwrap_or_default();
                        }
                        (here, there) => prop_assert!(false, "{:?} and {:?}", here, there),
                    }
                }
                Step::Estimate(cost) => {
                    let here = self.gate.estimate(cost);
                    let there = self.redis.estimate(KEY, cost).await.expect("an estimate");
                    let here = here.map_err(|denied| format!("{:?}", facts(&denied)));
                    let there = there.map_err(|denied| format!("{:?}", facts(&denied)));
                    prop_assert_eq!(here, there.map(drop));
                }
                Step::TakeUpTo(most) => {
                    let here = self.gate.take_up_to(most).cost();
                    let there = self.redis.take_up_to(KEY, most).await.expect("a part");
                    prop_assert_eq!(here, there.cost());
                }
                // A queue would answer for nothing.
                Step::Reserve { .. } if !self.books => continue,
                Step::Reserve { cost: 0, .. } => continue,
                Step::Reserve { cost, longest } => {
                    let longest = longest.map(Duration::from_nanos);
                    let demand = Demand::of(cost);
                    let demand = longest.map_or(demand, |longest| demand.within(longest));
                    let here = self.gate.reserve(demand);
                    let there = self.redis.reserve(KEY, cost, longest).await;
                    match (here, there.expect("a reservation")) {
                        (Ok(here), Ok(there)) => {
                            prop_assert_eq!(here.wait(), Some(there));
                            reserved.push(here);
                        }
                        (Err(here), Err(there)) => prop_assert_eq!(facts(&here), facts(&there)),
                        (here, there) => prop_assert!(false, "{:?} and {:?}", here, there),
                    }
                }
                Step::Add(amount) => {
                    self.gate.add(amount);
                    self.redis.add(KEY, amount).await.expect("an addition");
                }
            }
            let here = self.gate.snapshot();
            let there = self.redis.look(KEY).await.expect("a look");
            prop_assert_eq!(
                (here.available(), here.in_use()),
                (there.available, there.in_use),
                "after {:?}",
                step
            );
        }
        Ok(())
    }
}

/// Runs cases of a rule, all on one server.
fn compare<R>(rules: impl Strategy<Value = (R, u64)>)
where
    R: Rule + Clone + Into<RedisRule>,
{
    let runtime = Runtime::new().expect("a runtime");
    let server = Server::start();
    let cases = rules.prop_flat_map(|(rule, span)| {
        let steps = steps(span, rule.limit());
        // Some begin at an awkward moment.
        let start = prop_oneof![Just(0), Just(1_789_000_000_123_456_789_u64)];
        (Just(rule), start, steps)
    });
    for_all(50, &cases, |(rule, start, steps)| {
        runtime.block_on(async {
            let pair = Pair::new(&server, rule, start).await;
            pair.run(&steps).await
        })
    });
}

fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).expect("a period fits")
}

#[test]
fn fixed_windows() {
    compare((quotas(), any::<bool>()).prop_map(|(quota, to_epoch)| {
        let rule = FixedWindow::new(quota);
        let rule = if to_epoch {
            rule.aligned_to_epoch()
        } else {
            rule
        };
        (rule, nanos(quota))
    }));
}

#[test]
fn sliding_windows() {
    let segments = prop_oneof![4 => 1..12_u32, 1 => 1..1024_u32];
    compare((quotas(), segments).prop_map(|(quota, segments)| {
        let segments = segments.min(u32::try_from(nanos(quota)).unwrap_or(u32::MAX));
        (SlidingWindow::new(quota, segments), nanos(quota))
    }));
}

#[test]
fn sliding_counters() {
    compare(quotas().prop_map(|quota| (SlidingCounter::new(quota), nanos(quota))));
}

#[test]
fn sliding_logs() {
    compare(
        (quotas(), 0..4_u64, any::<bool>()).prop_map(|(quota, gap, counts)| {
            let gap = Duration::from_nanos(nanos(quota) / 7 * gap);
            // Of a log no larger ones are kept.
            let quota = Quota::new(quota.units().min((1 << 32) - 1), quota.period());
            let rule = SlidingLog::new(quota).min_gap(gap);
            let rule = if counts {
                rule.counting_refusals()
            } else {
                rule
            };
            (rule, nanos(quota))
        }),
    );
}

#[test]
fn token_buckets() {
    compare(buckets().prop_map(|bucket| {
        let span = nanos(bucket.refill());
        (bucket, span)
    }));
}

#[test]
fn bandwidths() {
    compare(prop::collection::vec(buckets(), 1..4).prop_map(|buckets| {
        let span = buckets.iter().map(|bucket| nanos(bucket.refill())).min();
        (Bandwidths::new(buckets), span.unwrap_or(1))
    }));
}

#[tokio::test]
async fn concurrency() {
    let server = Server::start();
    let clock = ManualClock::new();
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let gate = Gate::builder(Concurrency::new(5)).name("jobs").build();
    let redis = store.limiter("jobs", Concurrency::new(5)).expect("a limit");
    let mut held = Vec::new();
    for cost in [3, 0, 2, 1, 0, 6] {
        let here = gate.try_acquire(cost);
        let there = redis
            .decide(KEY, cost)
            .await
            .expect("a decision")
            .into_result();
        match (here, there) {
            (Ok(here), Ok(there)) => {
                assert_eq!(
                    there.standing(),
                    gate.standing().window(None).returns(false)
                );
                held.push((here, there));
            }
            (Err(here), Err(there)) => assert_eq!(facts(&here), facts(&there)),
            (here, there) => panic!("{here:?} and {there:?}"),
        }
        let (here, there) = (gate.snapshot(), redis.look(KEY).await.expect("a look"));
        assert_eq!(
            (here.available(), here.in_use()),
            (there.available, there.in_use)
        );
    }
    for (here, there) in held {
        drop(here);
        assert!(there.release().await.expect("a release") || gate.snapshot().in_use() == 0);
        let (here, there) = (gate.snapshot(), redis.look(KEY).await.expect("a look"));
        assert_eq!(here.in_use(), there.in_use);
    }
    assert_eq!(server.cli(&["dbsize"]), "0");
}
