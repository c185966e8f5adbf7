//! The clock of the server steps back by more than a limit remembers, or another server with another clock takes over.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::server::{Server, program};
use plimsoll::{
    Concurrency, FixedWindow, ManualClock, Moment, Quota, SlidingCounter, SlidingLog,
    SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Decision, RedisLimiter, RedisRule, Store};

const KEY: &str = "subject";
const START: u64 = 1_789_000_000_123_456_789;
const HOUR: u64 = 3_600_000_000_000;

fn store(server: &Server, clock: &ManualClock) -> Store {
    server.store().clock(clock.clock()).open().expect("a store")
}

async fn decide(limiter: &RedisLimiter, cost: u64) -> Decision {
    limiter.decide(KEY, cost).await.expect("a decision")
}

/// What was written an hour ahead counted as used just now with every call, so nothing came back for an hour, and who
/// asked was told 100 ms each time.
#[tokio::test]
async fn a_clock_an_hour_back_delays_nobody_longer_than_the_limit_remembers() {
    let server = Server::start();
    let quota = Quota::per_second(10);
    let rules: [(&str, RedisRule); 6] = [
        ("window", FixedWindow::new(quota).into()),
        ("segments", SlidingWindow::new(quota, 5).into()),
        ("counter", SlidingCounter::new(quota).into()),
        ("log", SlidingLog::new(quota).into()),
        ("greedy", TokenBucket::greedy(quota).into()),
        ("interval", TokenBucket::interval(quota).into()),
    ];
    for (name, rule) in rules {
        let ahead = ManualClock::starting_at(Moment::from_nanos(START));
        let right = ManualClock::starting_at(Moment::from_nanos(START - HOUR));
        let before = store(&server, &ahead).limiter(name, rule.clone());
        assert!(decide(&before.expect("a limit"), 10).await.is_granted());
        let now = store(&server, &right);
        let limiter = now.limiter(name, rule).expect("a limit");
        let Decision::Denied(denied) = decide(&limiter, 10).await else {
            panic!("{name}: what was used stays used");
        };
        let told = denied.retry_after().expect("a time");
        assert!(told <= Duration::from_secs(2), "{name}: {told:?}");
        // Asking meanwhile delays nothing.
        right.advance(told / 2);
        assert!(!decide(&limiter, 10).await.is_granted(), "{name}");
        right.advance(told - told / 2);
        assert!(decide(&limiter, 10).await.is_granted(), "{name}");
        assert_eq!(now.clock_steps(), 1, "{name}");
    }
}

/// Leases of holders that crashed were kept until the clock had caught up.
#[tokio::test]
async fn a_clock_an_hour_back_frees_crashed_holders_after_the_length_of_a_lease() {
    let server = Server::start();
    let ahead = ManualClock::starting_at(Moment::from_nanos(START));
    let right = ManualClock::starting_at(Moment::from_nanos(START - HOUR));
    let rule = RedisRule::from(Concurrency::new(3)).lease(Duration::from_secs(30));
    let crashed = store(&server, &ahead).limiter("jobs", rule.clone());
    let crashed = decide(&crashed.expect("a limit"), 3).await;
    crashed.into_result().expect("room").forget();
    let now = store(&server, &right);
    let limiter = now.limiter("jobs", rule).expect("a limit");
    assert!(!decide(&limiter, 1).await.is_granted());
    right.advance(Duration::from_secs(29));
    assert!(!decide(&limiter, 1).await.is_granted());
    right.advance(Duration::from_secs(1));
    assert!(decide(&limiter, 1).await.is_granted());
    assert_eq!(now.clock_steps(), 1);
}

/// A real server whose clock can be moved, if there is a C compiler.
struct Movable {
    server: Server,
    step: PathBuf,
    library: PathBuf,
}

impl Movable {
    fn start() -> Option<Self> {
        let name = |end: &str| {
            let name = format!("plimsoll-step-{}.{end}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let (step, library) = (name("clock"), name("so"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/stepped.c");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library);
        let compiled = compiler.arg(source).status();
        compiled.ok().filter(ExitStatus::success)?;
        std::fs::write(&step, 0_i64.to_ne_bytes()).expect("a file");
        let environment: [(_, &Path); 2] = [("LD_PRELOAD", &library), ("CLOCK_STEP", &step)];
        let server = Server::of(program(), &environment)?;
        Some(Self {
            server,
            step,
            library,
        })
    }

    fn step(&self, seconds: i64) {
        // In place: the server has it mapped.
        let file = std::fs::OpenOptions::new().write(true).open(&self.step);
        let mut file = file.expect("the file");
        let micros = seconds * 1_000_000;
        file.write_all(&micros.to_ne_bytes()).expect("written");
    }
}

impl Drop for Movable {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.step);
        let _ = std::fs::remove_file(&self.library);
    }
}

/// The same on a server whose clock really steps, in real time.
#[tokio::test]
async fn a_server_whose_clock_steps_back_an_hour_locks_nobody_out() {
    let Some(movable) = Movable::start() else {
        println!("SKIPPED: there is no C compiler here, so no clock was moved");
        return;
    };
    let store = movable.server.store().open().expect("a store");
    let time = || -> i64 {
        let time = movable.server.cli(&["time"]);
        let second = time.lines().next().expect("a second");
        second.parse().expect("a number")
    };
    let quota = Quota::new(5, Duration::from_millis(500));
    let rules: [(&str, RedisRule); 7] = [
        ("window", FixedWindow::new(quota).into()),
        ("segments", SlidingWindow::new(quota, 5).into()),
        ("counter", SlidingCounter::new(quota).into()),
        ("log", SlidingLog::new(quota).into()),
        ("greedy", TokenBucket::greedy(quota).into()),
        ("interval", TokenBucket::interval(quota).into()),
        (
            "lease",
            RedisRule::from(Concurrency::new(5)).lease(Duration::from_millis(500)),
        ),
    ];
    let limiters = rules.map(|(name, rule)| (name, store.limiter(name, rule).expect("a limit")));
    for (name, limiter) in &limiters {
        let taken = decide(limiter, 5).await.into_result();
        taken.unwrap_or_else(|_| panic!("{name}")).forget();
    }
    let before = time();
    movable.step(-3600);
    assert!(time() < before - 3000, "the clock was not moved");
    for (name, limiter) in &limiters {
        // Twice what the limit remembers, and some for the machine.
        let end = tokio::time::Instant::now() + Duration::from_millis(2500);
        while !decide(limiter, 1).await.is_granted() {
            let now = tokio::time::Instant::now();
            assert!(now < end, "{name} is locked out");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(store.clock_steps() >= 1);
}
