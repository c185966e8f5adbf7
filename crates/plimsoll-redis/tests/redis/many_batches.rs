//! Decisions about several limits that wait for the same round trip are decided by one script, each as if it had been sent by
//! itself.

use std::time::Duration;

use plimsoll::{
    Concurrency, FixedWindow, ManualClock, Moment, Quota, SlidingCounter, SlidingLog, TokenBucket,
};
use plimsoll_redis::{RedisLimiter, RedisRule, Store, StoreAsk, StoreDecision, StoreErrorKind};
use proptest::prelude::*;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::property::for_all;
use crate::server::Server;

const START: u64 = 1_789_000_000_123_456_789;
const KEYS: [&str; 2] = ["one", "two"];

/// Of which limit, for which key, how much, and whether as a shadow.
type Ask = (usize, usize, u64, bool);

/// A wait, and the decisions that are asked for at once after it.
type Step = (u64, Vec<Vec<Ask>>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![0..10_000_u64, 0..700_000_000_u64, 0..3_000_000_000_u64];
    let cost = prop_oneof![6 => Just(1_u64), 3 => 0..4_u64];
    let ask = (0..5_usize, 0..2_usize, cost, prop::bool::weighted(0.1));
    let decision = prop::collection::vec(ask, 1..5);
    let decisions = prop::collection::vec(decision, 1..12);
    prop::collection::vec((wait, decisions), 1..8)
}

/// Decisions about one limit each, all about the same. Those that take something and are enforced share the scripts of their
/// limiter, the others those of the store; there is no order between the two, so the decisions of a step are of one sort.
fn steps_of_one() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![0..10_000_u64, 0..700_000_000_u64, 0..3_000_000_000_u64];
    let key = prop_oneof![4 => Just(0_usize), 1 => Just(1)];
    let taking = prop_oneof![12 => Just(1_u64), 3 => 1..4_u64].prop_map(|cost| (cost, false));
    let other = prop_oneof![
        Just((0_u64, false)),
        (0..4_u64).prop_map(|cost| (cost, true))
    ];
    let of = |ask: BoxedStrategy<(u64, bool)>| prop::collection::vec((key.clone(), ask), 1..24);
    let decisions = prop_oneof![4 => of(taking.boxed()), 1 => of(other.boxed())];
    let steps = prop::collection::vec((wait, decisions), 1..8);
    (0..5_usize, steps).prop_map(|(limit, steps)| {
        let of_limit = |(key, (cost, shadow))| vec![(limit, key, cost, shadow)];
        let step = |(wait, decisions): (u64, Vec<_>)| {
            (wait, decisions.into_iter().map(of_limit).collect())
        };
        steps.into_iter().map(step).collect()
    })
}

/// Decisions about rates that all take something, each asked for several times in a row.
fn steps_in_runs() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![0..10_000_u64, 0..700_000_000_u64, 0..3_000_000_000_u64];
    let rate = prop::sample::select(vec![0_usize, 1, 2, 4]);
    let cost = prop_oneof![6 => Just(1_u64), 2 => 1..4_u64];
    let ask = (rate, 0..2_usize, cost, prop::bool::weighted(0.2));
    let decision = prop::collection::vec(ask, 1..4);
    let decisions = prop::collection::vec((decision, 1..10_usize), 1..5);
    let decisions = decisions.prop_map(|runs| {
        let runs = runs.into_iter();
        let run = |(decision, count)| std::iter::repeat_n(decision, count);
        runs.flat_map(run).collect()
    });
    prop::collection::vec((wait, decisions), 1..8)
}

/// Five limits; unless they are everyday ones, of sizes that the quick way does not decide.
fn limits(store: &Store, everyday: bool) -> Vec<RedisLimiter> {
    let second = |units| Quota::new(units, Duration::from_secs(1));
    let more = if everyday { 0 } else { 1 << 40 };
    let rules: [RedisRule; 5] = [
        TokenBucket::greedy(second(7 + more)).into(),
        FixedWindow::new(second(6 + more)).into(),
        SlidingLog::new(second(5)).into(),
        Concurrency::new(4).into(),
        SlidingCounter::new(second(6)).into(),
    ];
    let rules = rules.into_iter().enumerate();
    let limiters = rules.map(|(number, rule)| store.limiter(&format!("l{number}"), rule));
    limiters.map(|limiter| limiter.expect("a limit")).collect()
}

/// What each decision is about beside its own limits.
#[derive(Clone, Copy)]
enum Also {
    Nothing,
    /// All limits, without taking anything.
    All,
    /// All rates, as shadows that are taken from: what runs of decisions may be about.
    Rates,
}

fn asks<'a>(limits: &'a [RedisLimiter], asks: &[Ask], also: Also) -> Vec<StoreAsk<'a>> {
    let ask = |&(limit, key, cost, shadow): &Ask| {
        let ask = StoreAsk::new(&limits[limit], KEYS[key], cost);
        if shadow { ask.shadow() } else { ask }
    };
    // All decisions are about all kinds, so that there is one script: one that the server does not know yet is sent twice, and
    // another would overtake it.
    let (cost, leases) = match also {
        Also::Nothing | Also::All => (0, true),
        Also::Rates => (1, false),
    };
    let known = limits.iter().filter(|_| !matches!(also, Also::Nothing));
    let known = known.filter(|it| leases || !it.holds_leases());
    let known = known.map(|it| StoreAsk::new(it, "known", cost).shadow());
    asks.iter().map(ask).chain(known).collect()
}

/// What a decision says, without the numbers of leases. Permits are held.
fn words(decision: StoreDecision) -> Vec<String> {
    let words = decision.answers().iter();
    let words = words.map(|it| format!("{:?} {:?} {}", it.standing, it.denied, it.shadow));
    let words = words.chain([decision.is_admitted().to_string()]).collect();
    if let Ok(permits) = decision.into_result() {
        let _held = std::mem::ManuallyDrop::new(permits);
    }
    words
}

fn compare(everyday: bool, also: Also, steps: &impl Strategy<Value = Vec<Step>>) {
    let server = Server::start();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let time = ManualClock::starting_at(Moment::from_nanos(START));
    let store = |namespace: &str| {
        let store = server.store().namespace(namespace);
        store.clock(time.clock()).open().expect("a store")
    };
    let (alone, together) = (store("alone"), store("together"));
    let run = async |steps: Vec<Step>| {
        server.cli(&["flushall"]);
        let (one_by_one, at_once) = (limits(&alone, everyday), limits(&together, everyday));
        for limit in &at_once {
            let known = [StoreAsk::new(limit, "known", 0)];
            drop(together.decide_all(&known).await.expect("a decision"));
        }
        for (wait, decisions) in steps {
            time.advance(Duration::from_nanos(wait));
            let ask_at_once = |decision: &Vec<Ask>| -> JoinHandle<Vec<String>> {
                let (store, limits, decision) =
                    (together.clone(), at_once.clone(), decision.clone());
                tokio::spawn(async move {
                    let asks = asks(&limits, &decision, also);
                    words(store.decide_all(&asks).await.expect("a decision"))
                })
            };
            let tasks: Vec<_> = decisions.iter().map(ask_at_once).collect();
            let mut expected = Vec::new();
            for decision in &decisions {
                let asks = asks(&one_by_one, decision, also);
                let decision = alone.decide_all(&asks).await.expect("a decision");
                expected.push(words(decision));
            }
            for (task, expected) in tasks.into_iter().zip(expected) {
                prop_assert_eq!(task.await.expect("a task"), expected);
            }
        }
        Ok(())
    };
    for_all(12, steps, |steps| runtime.block_on(run(steps)));
}

#[test]
fn of_everyday_sizes() {
    compare(true, Also::All, &steps());
}

#[test]
fn of_other_sizes() {
    compare(false, Also::All, &steps());
}

#[test]
fn of_one_limit_each_of_an_everyday_size() {
    compare(true, Also::Nothing, &steps_of_one());
}

#[test]
fn of_one_limit_each_of_another_size() {
    compare(false, Also::Nothing, &steps_of_one());
}

#[test]
fn in_runs_of_everyday_sizes() {
    compare(true, Also::Rates, &steps_in_runs());
}

#[test]
fn in_runs_of_other_sizes() {
    compare(false, Also::Rates, &steps_in_runs());
}

fn four(store: &Store, tenant: u64) -> [RedisLimiter; 4] {
    [
        store.limiter("user", TokenBucket::per_second(100_000)),
        store.limiter("tenant", FixedWindow::new(Quota::per_day(tenant))),
        store.limiter("daily", SlidingLog::new(Quota::per_day(100_000))),
        store.limiter("jobs", Concurrency::new(100_000)),
    ]
    .map(|limiter| limiter.expect("a limit"))
}

/// Decisions of many callers take far fewer scripts than that, and none is granted too much.
#[tokio::test]
async fn those_who_wait_share_a_script() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let four = four(&store, 300);
    let decide = |number: usize| {
        let (store, four) = (store.clone(), four.clone());
        tokio::spawn(async move {
            let key = KEYS[number % 2];
            let asks = four.each_ref().map(|it| StoreAsk::new(it, key, 1));
            let decision = store.decide_all(&asks).await.expect("a decision");
            let admitted = decision.is_admitted();
            if let Ok(permits) = decision.into_result() {
                let _held = std::mem::ManuallyDrop::new(permits);
            }
            admitted
        })
    };
    let tasks: Vec<_> = (0..800).map(decide).collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += u64::from(task.await.expect("a task"));
    }
    assert_eq!(admitted, 600, "300 for each key");
    let scripts = server.scripts_run();
    assert!(scripts < 160, "{scripts} scripts for 800 decisions");
}

/// A counter that had counted nothing in the window before was read and answered for each decision.
#[tokio::test]
async fn decisions_of_a_run_read_each_key_once() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let quota = Quota::per_second(100_000);
    let limits = [
        store.limiter("user", TokenBucket::per_second(100_000)),
        store.limiter("tenant", FixedWindow::new(quota)),
        store.limiter("region", SlidingCounter::new(quota)),
    ];
    let limits = limits.map(|limiter| limiter.expect("a limit"));
    let decide = |_| {
        let (store, limits) = (store.clone(), limits.clone());
        tokio::spawn(async move {
            let asks = limits.each_ref().map(|it| StoreAsk::new(it, "key", 1));
            let decision = store.decide_all(&asks).await.expect("a decision");
            decision.is_admitted()
        })
    };
    let tasks: Vec<_> = (0..100).map(decide).collect();
    for task in tasks {
        assert!(task.await.expect("a task"));
    }
    let (reads, scripts) = (server.calls("get"), server.scripts_run());
    assert!(reads <= 3 * scripts, "{reads} reads in {scripts} scripts");
}

#[tokio::test]
async fn a_key_that_holds_something_else_fails_its_own_decisions_only() {
    let server = Server::start();
    let store = server.store().raw_keys().open().expect("a store");
    let four = four(&store, 1000);
    server.cli(&["lpush", "plimsoll:{two}:tenant:w", "something"]);
    let decide = |number: usize| {
        let (store, four) = (store.clone(), four.clone());
        tokio::spawn(async move {
            let key = KEYS[number % 2];
            let asks = four.each_ref().map(|it| StoreAsk::new(it, key, 1));
            store.decide_all(&asks).await.map(|it| it.is_admitted())
        })
    };
    let tasks: Vec<_> = (0..60).map(decide).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.expect("a task") {
            Ok(admitted) => assert!(admitted && number % 2 == 0, "{number}"),
            Err(error) => assert_eq!((error.kind(), number % 2), (StoreErrorKind::WrongType, 1)),
        }
    }
    assert_eq!(four[1].look("one").await.expect("a look").in_use, 30);
    assert_eq!(
        four[0].look("two").await.expect("a look").in_use,
        0,
        "nothing was taken"
    );
}
