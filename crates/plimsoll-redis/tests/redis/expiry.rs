//! Every key expires when it says no more than one that is not there; refusals write nothing; a clock that is off and a
//! limit that has changed neither refill nor freeze.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{
    Bandwidths, Clock, Concurrency, FixedWindow, ManualClock, Moment, Quota, SlidingCounter,
    SlidingLog, SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule};

const KEY: &str = "subject";
const MINUTE: Quota = Quota::per_minute(6);

async fn decide(limiter: &RedisLimiter, cost: u64) -> Decision {
    limiter.decide(KEY, cost).await.expect("a decision")
}

/// All kinds of rates with a limit of 6, and the most milliseconds their keys may live after 3 were taken.
fn rates() -> Vec<(&'static str, RedisRule, u64)> {
    let bucket = TokenBucket::greedy(MINUTE);
    let both = Bandwidths::new([bucket.clone(), TokenBucket::per_second(6)]);
    vec![
        ("fixed window", FixedWindow::new(MINUTE).into(), 60_000),
        (
            "sliding window",
            SlidingWindow::new(MINUTE, 6).into(),
            60_000,
        ),
        (
            "sliding counter",
            SlidingCounter::new(MINUTE).into(),
            120_000,
        ),
        ("sliding log", SlidingLog::new(MINUTE).into(), 60_000),
        ("greedy bucket", bucket.into(), 30_000),
        (
            "interval bucket",
            TokenBucket::interval(MINUTE).into(),
            60_000,
        ),
        ("bandwidths", both.into(), 30_000),
    ]
}

#[tokio::test]
async fn every_key_expires_when_it_says_nothing_new() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let mut all = rates();
    all.push(("leases", Concurrency::new(6).into(), 30_000));
    for (name, rule, longest) in all {
        let limiter = store.limiter(name, rule).expect("a limit");
        let decision = decide(&limiter, 3).await;
        let keys = server.cli(&["keys", "*"]);
        assert_eq!(keys.lines().count(), 1, "{name}: {keys}");
        let left: u64 = server
            .cli(&["pttl", &keys])
            .parse()
            .expect("a time to live");
        assert!(left > 0 && left <= longest + 1, "{name}: {left} ms");
        if name == "greedy bucket" {
            assert!(left > 25_000, "{name}: {left} ms");
        }
        drop(decision);
        limiter.forget(KEY).await.expect("forgetting");
    }
}

#[tokio::test]
async fn what_is_given_back_whole_leaves_no_key() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    for (name, rule, _) in rates() {
        if name == "sliding log" {
            // Its newest time still counts for the gap.
            continue;
        }
        let limiter = store.limiter(name, rule).expect("a limit");
        assert!(decide(&limiter, 3).await.is_granted());
        limiter.add(KEY, 3).await.expect("an addition");
        assert_eq!(server.cli(&["keys", "*"]), "", "{name}");
    }
}

#[tokio::test]
async fn looking_and_refusing_write_nothing() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let changes = || {
        let info = server.cli(&["info", "persistence"]);
        let line = info.lines().find(|line| line.starts_with("rdb_changes"));
        line.expect("a count of changes").to_owned()
    };
    let mut all = rates();
    all.push(("leases", Concurrency::new(6).into(), 0));
    for (name, rule, _) in all {
        let limiter = store.limiter(name, rule).expect("a limit");
        let before = changes();
        assert!(limiter.estimate(KEY, 1).await.expect("an estimate").is_ok());
        assert_eq!(limiter.look(KEY).await.expect("a look").available, 6);
        assert!(decide(&limiter, 0).await.is_granted());
        assert_eq!(changes(), before, "{name}");

        let held = decide(&limiter, 6).await;
        assert!(held.is_granted());
        let before = changes();
        for cost in [0, 1, 6, 7] {
            assert!(!decide(&limiter, cost).await.is_granted(), "{name}");
            assert!(
                limiter
                    .estimate(KEY, cost)
                    .await
                    .expect("an estimate")
                    .is_err()
            );
        }
        assert_eq!(changes(), before, "{name}");
    }
}

#[tokio::test]
async fn a_bucket_that_begins_empty_fills_even_if_its_first_callers_are_refused() {
    let server = Server::start();
    let time = ManualClock::new();
    let store = server.store().clock(time.clock()).open().expect("a store");
    let rule = TokenBucket::per_second(10).initial(0);
    let limiter = store.limiter("slow start", rule).expect("a limit");
    assert!(!decide(&limiter, 1).await.is_granted());
    time.advance(Duration::from_millis(300));
    assert!(decide(&limiter, 3).await.is_granted());
    assert!(!decide(&limiter, 1).await.is_granted());
}

/// The most that a limit in Redis may grant; that of a sliding log is less.
const MOST: u64 = (1 << 52) - 1;

#[tokio::test]
async fn monstrous_limits_work_by_the_clock_of_the_server() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let longest = Quota::new(1, Duration::from_nanos(1 << 62));
    let most = Quota::new(MOST, Duration::from_nanos(1 << 62));
    let logged = Quota::new((1 << 32) - 1, most.period());
    let bucket = |quota| TokenBucket::greedy(quota).burst(MOST);
    let deep = TokenBucket::interval(longest).burst(MOST);
    let rules: [(&str, RedisRule); 8] = [
        ("greedy", bucket(longest).into()),
        ("fast", bucket(most).initial(MOST - 1).into()),
        ("interval", deep.into()),
        ("window", FixedWindow::new(most).into()),
        ("segments", SlidingWindow::new(most, 1023).into()),
        ("counter", SlidingCounter::new(most).into()),
        ("log", SlidingLog::new(logged).min_gap(most.period()).into()),
        ("leases", Concurrency::new(MOST).into()),
    ];
    for (name, rule) in rules {
        let limiter = store.limiter(name, rule).expect("a limit");
        let first = decide(&limiter, limiter.limit() - 1).await;
        assert!(first.is_granted(), "{name}: {first:?}");
        let second = decide(&limiter, limiter.limit() / 2).await;
        assert!(!second.is_granted(), "{name}: {second:?}");
        limiter.add(KEY, MOST).await.expect("an addition");
        limiter
            .take_up_to(KEY, MOST)
            .await
            .expect("a part")
            .forget();
    }
}

fn at(seconds: u64) -> Clock {
    ManualClock::starting_at(Moment::from_nanos(seconds * 1_000_000_000)).clock()
}

/// The retry hint of whoever asks at the second `late`, of a limit used up at the second 6000.
async fn told_at(server: &Server, name: &str, rule: &RedisRule, late: u64) -> Option<Duration> {
    let limiter = |seconds| {
        let store = server.store().clock(at(seconds)).open().expect("a store");
        store.limiter(name, rule.clone()).expect("a limit")
    };
    let (before, after) = (limiter(6000), limiter(late));
    before.forget(KEY).await.expect("forgetting");
    assert!(decide(&before, 6).await.is_granted(), "{name}");
    match decide(&after, 6).await {
        Decision::Granted(_) => None,
        Decision::Denied(denied) => denied.retry_after(),
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_stands_still() {
    let server = Server::start();
    for (name, rule, _) in rates() {
        let told = told_at(&server, name, &rule, 5995).await;
        let told = told.unwrap_or_else(|| panic!("{name}: refilled by a clock that stepped back"));
        // Until the clock is where it was, and then as long as before.
        let longest = Duration::from_secs(5 + 120);
        assert!(
            told > Duration::from_secs(5) && told <= longest,
            "{name}: {told:?}"
        );
    }
}

#[tokio::test]
async fn a_clock_that_is_far_off_freezes_nothing() {
    let server = Server::start();
    for (name, rule, _) in rates() {
        let told = told_at(&server, name, &rule, 60).await;
        let told = told.unwrap_or_else(|| panic!("{name}: refilled by another clock"));
        assert!(told <= Duration::from_secs(120), "{name}: {told:?}");
    }
}

/// Rates of one kind, after which everything is back within two of their periods.
fn changing(kind: u64, quota: Quota) -> RedisRule {
    match kind {
        0 => FixedWindow::new(quota).into(),
        1 => SlidingWindow::new(quota, if quota.units() > 100 { 1000 } else { 3 }).into(),
        2 => SlidingCounter::new(quota).into(),
        3 => SlidingLog::new(quota).into(),
        4 => TokenBucket::greedy(quota).into(),
        _ => TokenBucket::interval(quota).into(),
    }
}

#[tokio::test]
async fn a_limit_that_changes_is_kept_by_its_new_terms() {
    let server = Server::start();
    let quotas = [
        Quota::per_second(1),
        Quota::per_second(1000),
        Quota::per_minute(7),
        Quota::per_day(9999),
        Quota::new(1, Duration::from_nanos(7)),
    ];
    for kind in 0..6 {
        for (old, new) in quotas
            .iter()
            .flat_map(|old| quotas.iter().map(move |new| (*old, *new)))
        {
            let time = ManualClock::starting_at(Moment::from_nanos(1_789_000_000_123_456_789));
            let store = server.store().clock(time.clock()).open().expect("a store");
            let before = store.limiter("api", changing(kind, old)).expect("a limit");
            let after = store.limiter("api", changing(kind, new)).expect("a limit");
            before.forget(KEY).await.expect("forgetting");
            assert!(decide(&before, old.units()).await.is_granted());
            if let Decision::Denied(denied) = decide(&after, new.units()).await {
                let told = denied.retry_after().expect("a time to come back");
                let longest = new.period() * 2;
                assert!(told <= longest, "{kind} from {old:?} to {new:?}: {told:?}");
                time.advance(told);
                let then = decide(&after, new.units()).await;
                assert!(
                    then.is_granted(),
                    "{kind} from {old:?} to {new:?}: {then:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_bucket_changes_its_style_and_keeps_what_is_missing() {
    let server = Server::start();
    let time = ManualClock::new();
    let store = server.store().clock(time.clock()).open().expect("a store");
    let limiter = |rule: TokenBucket| store.limiter("api", rule).expect("a limit");
    let quota = Quota::per_minute(10);
    let (greedy, interval) = (TokenBucket::greedy(quota), TokenBucket::interval(quota));
    assert!(decide(&limiter(greedy.clone()), 7).await.is_granted());
    let seen = limiter(interval).look(KEY).await.expect("a look");
    assert_eq!((seen.available, seen.in_use), (3, 7));
    let seen = limiter(greedy.burst(5)).look(KEY).await.expect("a look");
    assert_eq!((seen.available, seen.in_use), (0, 5));
}
