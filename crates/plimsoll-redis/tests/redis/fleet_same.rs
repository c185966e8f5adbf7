//! What is undone and charged after the fact is the same in memory and in Redis.

use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::{
    Bandwidths, Demand, FixedWindow, Gate, ManualClock, Moment, PerKey, Permit, Quota, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Fleet, RedisRule};
use proptest::prelude::*;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

const KEY: &str = "subject";

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Take(u64),
    /// Undoes one that was granted, of those that are left.
    Undo(usize),
    Charge(u64),
}

fn steps(span: u64, limit: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..=limit.div_ceil(2)).prop_map(Step::Take),
        2 => any::<usize>().prop_map(Step::Undo),
        1 => (0..=limit * 2).prop_map(Step::Charge),
        1 => (0..=span).prop_map(Step::Wait),
        2 => (0..=span / 7).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..40)
}

/// Waits until the store looks as expected: undoing and charging are done in the background.
async fn settle(fleet: &Fleet, expected: (u64, u64)) -> (u64, u64) {
    let mut seen = (u64::MAX, u64::MAX);
    for _ in 0..200 {
        let look = fleet.limiter().look(KEY).await.expect("a look");
        seen = (look.available, look.in_use);
        if seen == expected {
            break;
        }
    }
    seen
}

/// How many scripts the server has run.
async fn scripts(connection: &mut MultiplexedConnection) -> u64 {
    let mut info = redis::cmd("INFO");
    let stats = info.arg("commandstats").query_async(connection).await;
    let stats: String = stats.expect("what the server says");
    let calls = |line: &str| {
        let calls = line.strip_prefix("cmdstat_evalsha:calls=")?;
        calls.split(',').next()?.parse().ok()
    };
    stats.lines().find_map(calls).unwrap_or(0)
}

/// Waits until one more has run. Without, one that changes nothing yet might run after the clock was moved, and then
/// change something: this test was unsteady until it waited.
async fn sent(connection: &mut MultiplexedConnection, before: u64) {
    for _ in 0..10_000 {
        if scripts(connection).await > before {
            return;
        }
    }
    panic!("nothing was sent");
}

async fn run<R: Rule + Clone + Into<RedisRule>>(
    server: &Server,
    connection: &mut MultiplexedConnection,
    rule: R,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let clock = ManualClock::starting_at(Moment::from_nanos(1_789_000_000_123_456_789));
    let gate = Gate::builder(rule.clone()).clock(clock.clock());
    let gate = gate.name("same").build();
    let store = server.store().clock(clock.clock()).open().expect("a store");
    let limiter = store.limiter("same", rule).expect("a limiter");
    limiter.forget(KEY).await.expect("forgetting");
    limiter.begin(KEY).await.expect("a beginning");
    let fleet = limiter.fleet().build().expect("a fleet");
    let mut held: Vec<(Permit<'_>, Permit<'_>)> = Vec::new();
    for step in steps {
        match *step {
            Step::Wait(nanos) => clock.advance(Duration::from_nanos(nanos)),
            Step::Take(cost) => {
                let here = gate.try_acquire(cost);
                let there = fleet.acquire_owned(KEY, Demand::of(cost)).await;
                match (here, there) {
                    (Ok(here), Ok(there)) => held.push((here, there)),
                    (Err(here), Err(there)) => {
                        prop_assert_eq!(here.retry_after(), there.retry_after());
                    }
                    (here, there) => prop_assert!(false, "{:?} and {:?}", here, there),
                }
            }
            Step::Undo(which) if !held.is_empty() => {
                let (here, there) = held.swap_remove(which % held.len());
                here.undo();
                let before = scripts(connection).await;
                there.undo();
                sent(connection, before).await;
            }
            Step::Undo(_) => {}
            Step::Charge(cost) => {
                gate.charge(cost);
                let before = scripts(connection).await;
                fleet.charge(KEY, cost);
                if cost > 0 {
                    sent(connection, before).await;
                }
            }
        }
        let here = gate.snapshot();
        let here = (here.available(), here.in_use());
        prop_assert_eq!(here, settle(&fleet, here).await, "after {:?}", step);
    }
    prop_assert_eq!(fleet.totals().lost, 0);
    Ok(())
}

fn compare<R>(rules: impl Strategy<Value = (R, u64)>)
where
    R: Rule + Clone + Into<RedisRule>,
{
    let runtime = Runtime::new().expect("a runtime");
    let server = Server::start();
    let connection = runtime.block_on(async {
        let client = redis::Client::open(server.url()).expect("an address");
        let connecting = client.get_multiplexed_async_connection();
        connecting.await.expect("a connection")
    });
    let cases = rules.prop_flat_map(|(rule, span)| {
        let steps = steps(span, rule.limit());
        (Just(rule), steps)
    });
    for_all(20, &cases, |(rule, steps)| {
        runtime.block_on(run(&server, &mut connection.clone(), rule, &steps))
    });
}

fn quotas() -> impl Strategy<Value = Quota> {
    (1..30_u64, 1..3_000_000_000_u64)
        .prop_map(|(units, nanos)| Quota::new(units, Duration::from_nanos(nanos)))
}

fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).expect("a period fits")
}

#[test]
fn of_fixed_windows() {
    compare(quotas().prop_map(|quota| (FixedWindow::new(quota), nanos(quota))));
}

#[test]
fn of_sliding_windows() {
    compare((quotas(), 1..12_u32).prop_map(|(quota, segments)| {
        let segments = segments.min(u32::try_from(nanos(quota)).unwrap_or(u32::MAX));
        (SlidingWindow::new(quota, segments), nanos(quota))
    }));
}

#[test]
fn of_sliding_counters() {
    compare(quotas().prop_map(|quota| (SlidingCounter::new(quota), nanos(quota))));
}

#[test]
fn of_sliding_logs() {
    compare((quotas(), 0..3_u64).prop_map(|(quota, gap)| {
        let gap = Duration::from_nanos(nanos(quota) / 9 * gap);
        (SlidingLog::new(quota).min_gap(gap), nanos(quota))
    }));
}

fn buckets() -> impl Strategy<Value = TokenBucket> {
    (quotas(), 1..30_u64, any::<bool>()).prop_map(|(quota, burst, greedy)| {
        let bucket = if greedy {
            TokenBucket::greedy(quota)
        } else {
            TokenBucket::interval(quota)
        };
        bucket.burst(burst)
    })
}

#[test]
fn of_token_buckets() {
    compare(buckets().prop_map(|bucket| {
        let span = nanos(bucket.refill());
        (bucket, span)
    }));
}

#[test]
fn of_bandwidths() {
    compare(prop::collection::vec(buckets(), 1..4).prop_map(|buckets| {
        let span = buckets.iter().map(|bucket| nanos(bucket.refill())).min();
        (Bandwidths::new(buckets), span.unwrap_or(1))
    }));
}
