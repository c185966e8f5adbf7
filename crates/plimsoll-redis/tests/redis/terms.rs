//! Two processes with different terms at one key, as in every rolling deployment: what was used stays used, time passes
//! for both, and together they grant no more than the larger of both limits.

use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::{
    FixedWindow, ManualClock, Moment, Quota, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule};
use proptest::prelude::*;
use tokio::runtime::Runtime;

const KEY: &str = "subject";
const START: u64 = 1_789_000_000_000_000_000;

async fn decide(limiter: &RedisLimiter, cost: u64) -> Decision {
    limiter.decide(KEY, cost).await.expect("a decision")
}

fn clock() -> ManualClock {
    ManualClock::starting_at(Moment::from_nanos(START))
}

/// Limiters of the same name, one for each of the terms.
fn limiters<const N: usize>(
    server: &Server,
    clock: &ManualClock,
    rules: [RedisRule; N],
) -> [RedisLimiter; N] {
    let store = server.store().clock(clock.clock()).open().expect("a store");
    rules.map(|rule| store.limiter("api", rule).expect("a limit"))
}

fn rule(kind: u64, quota: Quota) -> RedisRule {
    match kind {
        0 => FixedWindow::new(quota).into(),
        1 => SlidingWindow::new(quota, 5).into(),
        2 => SlidingCounter::new(quota).into(),
        3 => SlidingLog::new(quota).into(),
        4 => TokenBucket::greedy(quota).into(),
        _ => TokenBucket::interval(quota).into(),
    }
}

/// What two are granted that ask in turns.
async fn granted_in_turns(server: &Server, rules: [RedisRule; 2], span: u64, step: u64) -> u64 {
    let clock = clock();
    let both = limiters(server, &clock, rules);
    both[0].forget(KEY).await.expect("forgetting");
    let mut granted = 0;
    for _ in 0..span / step {
        for limiter in &both {
            granted += u64::from(decide(limiter, 1).await.is_granted());
        }
        clock.advance(Duration::from_millis(step));
    }
    granted
}

/// A refusal by other terms stored the converted state and dropped the time that had passed: 10 a second beside 20 a
/// second granted nothing in 10 s after the first 20.
#[tokio::test]
async fn two_rates_in_turns_grant_at_least_the_smaller_and_at_most_the_larger() {
    let server = Server::start();
    for kind in 0..6 {
        let rules = [10, 20].map(|units| rule(kind, Quota::per_second(units)));
        let granted = granted_in_turns(&server, rules, 10_000, 7).await;
        // The larger has 20 at once and 20 a second.
        assert!((100..=220).contains(&granted), "{kind}: {granted}");
    }
}

/// The same of windows of different lengths, which wrote over each other's.
#[tokio::test]
async fn windows_of_different_lengths_in_turns_do_not_start_anew() {
    let server = Server::start();
    for kind in 0..6 {
        let lengths = [(1, 10), (3, 10), (10, 1)];
        for (first, second) in lengths {
            let quota = |seconds| Quota::new(12, Duration::from_secs(seconds));
            let rules = [rule(kind, quota(first)), rule(kind, quota(second))];
            let granted = granted_in_turns(&server, rules, 20_000, 23).await;
            let shorter = first.min(second);
            let longer = first.max(second);
            let (least, most) = (12 * (20 / longer), 12 * (20 / shorter + 2));
            assert!(
                (least..=most).contains(&granted),
                "{kind} {first} s and {second} s: {granted}"
            );
        }
    }
}

/// A process with a larger bucket forgot what the smaller had no room for, and one with a longer window what a shorter had
/// forgotten.
#[tokio::test]
async fn what_was_used_stays_used_whoever_asks_in_between() {
    let server = Server::start();
    for kind in 0..6 {
        let clock = clock();
        let quotas = [
            Quota::new(5, Duration::from_secs(1)),
            Quota::new(100, Duration::from_secs(100)),
        ];
        let [small, large] = limiters(&server, &clock, quotas.map(|quota| rule(kind, quota)));
        small.forget(KEY).await.expect("forgetting");
        assert!(decide(&large, 100).await.is_granted());
        let mut granted = 0;
        for _ in 0..8 {
            clock.advance(Duration::from_millis(1000));
            granted += u64::from(decide(&small, 1).await.is_granted());
        }
        assert!(granted >= 5, "{kind}: {granted}");
        let seen = large.look(KEY).await.expect("a look");
        assert!(seen.available <= 8, "{kind}: {seen:?}");
    }
}

/// A refusal wrote its conversion.
#[tokio::test]
async fn a_refusal_by_other_terms_writes_nothing() {
    let server = Server::start();
    for kind in 0..6 {
        let clock = clock();
        let quotas = [Quota::per_second(5), Quota::per_minute(7)];
        let [first, second] = limiters(&server, &clock, quotas.map(|quota| rule(kind, quota)));
        first.forget(KEY).await.expect("forgetting");
        assert!(decide(&first, 5).await.is_granted());
        let changes = || {
            let info = server.cli(&["info", "persistence"]);
            let line = info.lines().find(|line| line.starts_with("rdb_changes"));
            line.expect("a count of changes").to_owned()
        };
        let before = changes();
        assert!(!decide(&second, 3).await.is_granted(), "{kind}");
        assert!(!decide(&first, 1).await.is_granted(), "{kind}");
        assert_eq!(changes(), before, "{kind}");
    }
}

/// Everything is refilled to the nanosecond: by the terms before up to now, and by its own from then on.
#[tokio::test]
async fn a_bucket_of_other_terms_has_what_is_missing_to_the_part() {
    let server = Server::start();
    let clock = clock();
    let rules = [TokenBucket::per_second(20), TokenBucket::per_second(10)];
    let [fast, slow] = limiters(&server, &clock, rules.map(RedisRule::from));
    assert!(decide(&fast, 9).await.is_granted());
    clock.advance(Duration::from_nanos(123_456_789));
    // 9 - 20 * 0.123456789 are missing, so 0.469135780 of a token until there are 3.
    let seen = slow.look(KEY).await.expect("a look");
    assert_eq!((seen.available, seen.in_use), (3, 7));
    let Decision::Denied(denied) = decide(&slow, 4).await else {
        panic!("3 are there");
    };
    let told = denied.retry_after().expect("a time");
    assert_eq!(told, Duration::from_nanos(53_086_422));
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Ask {
        who: usize,
        cost: u64,
    },
    /// As long as whoever was refused last was told, and asks again.
    Obey,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![0..50_000_000_u64, 0..1_500_000_000_u64];
    let step = prop_oneof![
        6 => (0..2_usize, 1..4_u64).prop_map(|(who, cost)| Step::Ask { who, cost }),
        3 => wait.prop_map(Step::Wait),
        1 => Just(Step::Obey),
    ];
    prop::collection::vec(step, 1..80)
}

fn quotas() -> impl Strategy<Value = Quota> {
    let nanos = prop::sample::select(vec![
        100_000_000_u64,
        123_456_789,
        1_000_000_000,
        2_000_000_000,
        5_000_000_000,
    ]);
    (3..20_u64, nanos).prop_map(|(units, nanos)| Quota::new(units, Duration::from_nanos(nanos)))
}

/// What one grants in a span at most: of a bucket exactly, of a window that slides or not the most that fits.
fn most(kind: u64, quota: Quota, span: u128) -> u128 {
    let (units, period) = (u128::from(quota.units()), quota.period().as_nanos());
    match kind {
        4 => units + units * span / period,
        3 => units * (span / period + 1),
        _ => units * (span / period + 2),
    }
}

/// No span of time sees more than the larger terms would grant in it: the larger burst, and the larger rate.
fn check(kind: u64, quotas: [Quota; 2], grants: &[(u128, u128)]) -> Result<(), TestCaseError> {
    for (i, (begin, _)) in grants.iter().enumerate() {
        let mut sum = 0;
        for (end, cost) in &grants[i..] {
            sum += cost;
            let span = end - begin;
            let burst = quotas.map(|quota| most(kind, quota, 0));
            let rate = quotas.map(|quota| most(kind, quota, span) - most(kind, quota, 0));
            let larger = burst[0].max(burst[1]) + rate[0].max(rate[1]);
            // Of rates that are no whole numbers the parts of both may add up.
            prop_assert!(sum <= larger + 1, "{} in {} ns, not {}", sum, span, larger);
        }
    }
    Ok(())
}

#[test]
fn random_turns_grant_no_more_than_the_larger_and_never_starve() {
    let runtime = Runtime::new().expect("a runtime");
    let server = Server::start();
    let cases = (0..6_u64, quotas(), quotas(), steps());
    for_all(100, &cases, |(kind, first, second, steps)| {
        runtime.block_on(async {
            let (clock, quotas) = (clock(), [first, second]);
            let both = limiters(&server, &clock, quotas.map(|quota| rule(kind, quota)));
            both[0].forget(KEY).await.expect("forgetting");
            let mut now = 0;
            let mut refused = None;
            let mut grants = Vec::new();
            for step in steps {
                let (who, cost, wait) = match step {
                    Step::Wait(nanos) => {
                        clock.advance(Duration::from_nanos(nanos));
                        now += u128::from(nanos);
                        continue;
                    }
                    Step::Ask { who, cost } => (who, cost, None),
                    Step::Obey => match refused.take() {
                        Some((who, cost, until)) => (who, cost, Some(until)),
                        None => continue,
                    },
                };
                if let Some(until) = wait {
                    let span = u64::try_from(u128::saturating_sub(until, now)).expect("short");
                    clock.advance(Duration::from_nanos(span));
                    now += u128::from(span);
                }
                match decide(&both[who], cost).await {
                    Decision::Granted(_) => {
                        grants.push((now, u128::from(cost)));
                        refused = None;
                    }
                    Decision::Denied(denied) => {
                        prop_assert!(wait.is_none(), "told to come then: {:?}", denied);
                        let told = denied.retry_after().expect("a time").as_nanos();
                        refused = Some((who, cost, now + told));
                    }
                }
            }
            check(kind, quotas, &grants)
        })
    });
}
