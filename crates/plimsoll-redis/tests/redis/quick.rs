//! What is decided the quick way is answered and kept as the full way does it: also after a limit has changed, and where
//! clocks disagree. Limits that are decided together with one that is too large for the quick way are decided the full way,
//! so a limit alone and all of one limit are compared with all of it and such a one.

use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::{
    Concurrency, Demand, FixedWindow, ManualClock, Moment, PerKey, Quota, SlidingCounter,
    SlidingLog, SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisAll, RedisLimiter, RedisRule};
use proptest::prelude::*;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

const KEY: &str = "subject";
const START: u64 = 1_789_000_000_123_456_789;

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Ask { who: usize, cost: u64 },
    Add { who: usize, amount: u64 },
}

/// Most are asked of the first, which is the old limit on a clock that is right.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || prop_oneof![6 => Just(0_usize), 2 => Just(1), 1 => Just(2), 1 => Just(3)];
    let cost = prop_oneof![4 => Just(1_u64), 3 => 0..6_u64, 1 => 0..25_u64];
    let wait = prop_oneof![
        3 => 0..10_000_u64,
        3 => 0..300_000_000_u64,
        1 => 0..3_000_000_000_u64,
        1 => prop::sample::select(vec![50_000_000, 1_000_000_000, 30_000_000_000]),
    ];
    let step = prop_oneof![
        6 => (who(), cost).prop_map(|(who, cost)| Step::Ask { who, cost }),
        3 => wait.prop_map(Step::Wait),
        1 => (who(), 0..4_u64).prop_map(|(who, amount)| Step::Add { who, amount }),
    ];
    prop::collection::vec(step, 1..50)
}

/// Of sizes that the quick way decides.
fn quotas() -> impl Strategy<Value = Quota> {
    let nanos = prop::sample::select(vec![
        100_000_000,
        123_456_789,
        1_000_000_000,
        2_000_000_000,
        60_000_000_000,
    ]);
    (1..20_u64, nanos).prop_map(|(units, nanos)| Quota::new(units, Duration::from_nanos(nanos)))
}

/// A limit that never refuses, of a size that the quick way does not decide.
fn huge() -> FixedWindow {
    FixedWindow::new(Quota::new(
        u64::from(u32::MAX),
        Duration::from_secs(1 << 32),
    ))
}

/// One way of deciding: the old limit and the new one, each on a clock that is right and on one that is behind.
struct Way {
    alone: Vec<RedisLimiter>,
    together: Option<Vec<RedisAll>>,
    namespace: &'static str,
}

impl Way {
    fn new(
        server: &Server,
        namespace: &'static str,
        clocks: &[ManualClock],
        rules: &[RedisRule],
    ) -> Self {
        let (mut alone, mut together) = (Vec::new(), Vec::new());
        let full = namespace == "full";
        for clock in clocks {
            let store = server.store().namespace(namespace).clock(clock.clock());
            let store = store.raw_keys().open().expect("a store");
            for rule in rules {
                let limiter = store.limiter("same", rule.clone()).expect("a limit");
                let huge = full.then(|| store.limiter("huge", huge()).expect("a limit"));
                let all = store.all([limiter.clone()].into_iter().chain(huge));
                together.push(all.expect("limits"));
                alone.push(limiter);
            }
        }
        Self {
            alone,
            together: (namespace != "quick").then_some(together),
            namespace,
        }
    }

    /// What is answered, in words.
    async fn ask(&self, who: usize, cost: u64) -> String {
        let (estimate, decision) = match &self.together {
            Some(all) => {
                let estimate = all[who].estimate(KEY, cost).await;
                (estimate, all[who].decide(KEY, cost).await)
            }
            None => {
                let estimate = self.alone[who].estimate(KEY, cost).await;
                (estimate, self.alone[who].decide(KEY, cost).await)
            }
        };
        let estimate = estimate.expect("an estimate");
        match decision.expect("a decision") {
            Decision::Granted(permit) => {
                let answer = format!("{estimate:?}, {:?}", permit.standing());
                permit.forget();
                answer
            }
            Decision::Denied(denied) => format!("{estimate:?}, {denied:?}"),
        }
    }

    /// What is kept, without the names of leases.
    async fn kept(&self, connection: &mut MultiplexedConnection, letter: char) -> Vec<String> {
        let key = format!("{}:{{{KEY}}}:same:{letter}", self.namespace);
        if !matches!(letter, 'l' | 'k') {
            let text: Option<String> = redis::cmd("GET")
                .arg(key)
                .query_async(connection)
                .await
                .expect("a text");
            return text.into_iter().collect();
        }
        let mut range = redis::cmd("ZRANGE");
        range.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let members: Vec<(String, String)> =
            range.query_async(connection).await.expect("a sorted set");
        let words = |(member, score): (String, String)| match member.rsplit_once(':') {
            Some((_, cost)) if letter == 'k' => format!("{cost} until {score}"),
            _ => format!("{member} at {score}"),
        };
        let mut words: Vec<_> = members.into_iter().map(words).collect();
        words.sort();
        words
    }
}

/// Compares both ways for limits of one kind, which `letter` stands for in their keys.
fn compare(letter: char, rules: impl Fn(Quota, u64) -> RedisRule + Clone) {
    let runtime = Runtime::new().expect("a runtime");
    let server = Server::start();
    let connection = runtime.block_on(async {
        let client = redis::Client::open(server.url()).expect("an address");
        let connecting = client.get_multiplexed_async_connection();
        connecting.await.expect("a connection")
    });
    let rule = || {
        let rules = rules.clone();
        (quotas(), 1..12_u64).prop_map(move |(quota, size)| rules(quota, size))
    };
    let behind = prop::sample::select(vec![1, 700_000_000, 5_000_000_000, 500_000_000_000_u64]);
    let cases = (rule(), rule(), behind, steps());
    for_all(30, &cases, |(old, new, behind, steps)| {
        runtime.block_on(async {
            let _: () = redis::cmd("FLUSHALL")
                .query_async(&mut connection.clone())
                .await
                .expect("forgetting");
            let at = |nanos| ManualClock::starting_at(Moment::from_nanos(nanos));
            let clocks = [at(START), at(START - behind)];
            let rules = [old, new];
            let ways = ["quick", "together", "full"];
            let ways = ways.map(|name| Way::new(&server, name, &clocks, &rules));
            for step in steps {
                let mut answers = Vec::new();
                for way in &ways {
                    match step {
                        Step::Wait(_) => {}
                        Step::Ask { who, cost } => answers.push(way.ask(who, cost).await),
                        Step::Add { who, amount } => {
                            way.alone[who].add(KEY, amount).await.expect("an addition");
                        }
                    }
                }
                if let Step::Wait(nanos) = step {
                    let span = Duration::from_nanos(nanos);
                    clocks.iter().for_each(|clock| clock.advance(span));
                }
                if let [quick, together, full] = answers.as_slice() {
                    prop_assert_eq!(quick, full, "answered to {:?}", step);
                    prop_assert_eq!(together, full, "answered to {:?}", step);
                }
                let full = ways[2].kept(&mut connection.clone(), letter).await;
                for way in &ways[..2] {
                    let kept = way.kept(&mut connection.clone(), letter).await;
                    prop_assert_eq!(&kept, &full, "kept {} after {:?}", way.namespace, step);
                }
            }
            Ok(())
        })
    });
}

#[test]
fn fixed_windows_are_kept_the_same_both_ways() {
    compare('w', |quota, _| FixedWindow::new(quota).into());
}

#[test]
fn sliding_windows_are_kept_the_same_both_ways() {
    compare('s', |quota, segments| {
        SlidingWindow::new(quota, u32::try_from(segments).expect("few")).into()
    });
}

#[test]
fn sliding_counters_are_kept_the_same_both_ways() {
    compare('c', |quota, _| SlidingCounter::new(quota).into());
}

#[test]
fn token_buckets_are_kept_the_same_both_ways() {
    compare('b', |quota, burst| {
        TokenBucket::greedy(quota).burst(burst).into()
    });
}

#[test]
fn sliding_logs_are_kept_the_same_both_ways() {
    compare('l', |quota, size| {
        let log = SlidingLog::new(quota);
        if size > 8 {
            log.counting_refusals()
        } else {
            log
        }
        .into()
    });
}

#[test]
fn leases_are_kept_the_same_both_ways() {
    compare('k', |quota, _| {
        let rule = RedisRule::from(Concurrency::new(quota.units()));
        rule.lease(quota.period())
    });
}

/// Waits until one more script has run.
async fn until_run(server: &Server, before: u64) {
    for _ in 0..1000 {
        if server.scripts_run() > before {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("nothing was sent");
}

#[tokio::test]
async fn what_was_granted_is_given_back_to_the_moment_it_was_taken() {
    let server = Server::start();
    let quota = Quota::per_second(10);
    let early = Duration::from_millis(300);
    let rules: [(&str, RedisRule, Duration); 5] = [
        (
            "window",
            FixedWindow::new(quota).into(),
            Duration::from_secs(1),
        ),
        (
            "counter",
            SlidingCounter::new(quota).into(),
            Duration::from_secs(1),
        ),
        ("segments", SlidingWindow::new(quota, 10).into(), early),
        ("log", SlidingLog::new(quota).into(), early),
        ("bucket", TokenBucket::greedy(quota).into(), early),
    ];
    for (name, rule, span) in rules {
        let clock = ManualClock::starting_at(Moment::from_nanos(START));
        let store = server.store().clock(clock.clock()).open().expect("a store");
        let fleet = store.limiter(name, rule).expect("a limit").fleet();
        let fleet = fleet.build().expect("a fleet");
        let take = async |cost: u64| {
            let demand = Demand::of(cost);
            fleet.acquire_owned(KEY, demand).await.expect("room")
        };
        // The first of a log is decided the full way.
        take(1).await.forget();
        clock.advance(Duration::from_millis(1));
        let permit = take(3).await;
        clock.advance(span);
        take(2).await.forget();
        let before = server.scripts_run();
        permit.undo();
        until_run(&server, before).await;
        let seen = fleet.limiter().look(KEY).await.expect("a look").in_use;
        let expected = match name {
            // What was taken in the window before is gone with it.
            "window" => 2,
            // As much as was taken has come since, and would have found no room but for the first.
            _ => 3,
        };
        assert_eq!(seen, expected, "{name}");
    }
}

#[tokio::test]
async fn what_is_kept_expires_at_the_same_time_both_ways() {
    let server = Server::start();
    let quota = Quota::per_day(10);
    let lease = RedisRule::from(Concurrency::new(10)).lease(quota.period());
    let rules: [(char, RedisRule); 6] = [
        ('w', FixedWindow::new(quota).into()),
        ('c', SlidingCounter::new(quota).into()),
        ('s', SlidingWindow::new(quota, 10).into()),
        ('l', SlidingLog::new(quota).into()),
        ('b', TokenBucket::greedy(quota).into()),
        ('k', lease),
    ];
    for (letter, rule) in rules {
        let mut expire = Vec::new();
        for namespace in ["quick", "together", "full"] {
            let store = server.store().namespace(namespace).raw_keys();
            let store = store.open().expect("a store");
            let alone = store.limiter("same", rule.clone()).expect("a limit");
            let huge = (namespace == "full").then(|| store.limiter("huge", huge()));
            let huge = huge.map(|limiter| limiter.expect("a limit"));
            let together = store.all([alone.clone()].into_iter().chain(huge));
            let together = together.expect("limits");
            // The first of a log is decided the full way, and what it says is overwritten.
            for _ in 0..2 {
                let decision = match namespace {
                    "quick" => alone.decide(KEY, 1).await,
                    _ => together.decide(KEY, 1).await,
                };
                let permit = decision.expect("a decision").into_result();
                permit.expect("room").forget();
                let key = format!("{namespace}:{{{KEY}}}:same:{letter}");
                expire.push(server.cli(&["pttl", &key]));
                // A lease only lengthens it.
                server.cli(&["pexpire", &key, "3000"]);
            }
        }
        let millis: Vec<i64> = expire.iter().flat_map(|text| text.parse()).collect();
        let [first, quick, first_together, together, first_full, full] = millis[..] else {
            panic!("{letter}: {expire:?}");
        };
        let pairs = [
            (first, first_full),
            (first_together, first_full),
            (quick, full),
            (together, full),
        ];
        for (quick, full) in pairs {
            assert!((quick - full).abs() < 5000, "{letter}: {expire:?}");
            assert!(quick > 10_000, "{letter}: {expire:?}");
        }
    }
}
