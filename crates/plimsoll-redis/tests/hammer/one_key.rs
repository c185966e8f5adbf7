//! All on one key.

use std::rc::Rc;
use std::time::Duration;

use plimsoll::{Demand, FixedWindow, PerKey, Quota, SlidingWindow, TokenBucket};
use plimsoll_redis::{Borrow, Decision, Fleet, RedisLimiter, RedisRule};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use crate::children::{PROCESSES, hammer};
use crate::process::{Tools, say};
use crate::seconds;
use crate::server::Server;

const KEY: &str = "everybody";
const SECOND: u64 = 1_000_000;

const BUCKET: (u64, u64) = (400, 100);
const WINDOW: u64 = 200;
const SEGMENTS: u64 = 10;
const BORROWED_BUCKET: (u64, u64) = (1000, 200);
const BORROWED_WINDOW: u64 = 400;
/// The most that a process borrows.
const MOST: u64 = 10;

const RATES: [&str; 5] = [
    "bucket",
    "window",
    "sliding",
    "borrowed-bucket",
    "borrowed-window",
];

fn small(number: u64) -> u64 {
    number
}

fn rule(rate: &str) -> RedisRule {
    let bucket = |(rate, burst)| TokenBucket::per_second(small(rate)).burst(small(burst));
    let quota = |units| Quota::per_second(small(units));
    match rate {
        "bucket" => bucket(BUCKET).into(),
        "window" => FixedWindow::new(quota(WINDOW)).aligned_to_epoch().into(),
        "sliding" => {
            SlidingWindow::new(quota(WINDOW), u32::try_from(SEGMENTS).expect("few")).into()
        }
        "borrowed-bucket" => bucket(BORROWED_BUCKET).into(),
        _ => FixedWindow::new(quota(BORROWED_WINDOW))
            .aligned_to_epoch()
            .into(),
    }
}

/// Asks for all rates at once, as often as it can.
pub(crate) async fn run(tools: Tools) {
    let tools = Rc::new(tools);
    let end = Instant::now() + Duration::from_secs(seconds());
    let tasks = LocalSet::new();
    for rate in RATES {
        let limiter = tools.store.limiter(rate, rule(rate)).expect("a limiter");
        let borrow = Borrow::new().max(MOST);
        let borrowing = limiter.fleet().borrowing(borrow).build().expect("a fleet");
        for _ in 0..2 {
            let tools = Rc::clone(&tools);
            if rate.starts_with("borrowed") {
                tasks.spawn_local(ask_here(tools, rate, borrowing.clone(), end));
            } else {
                tasks.spawn_local(ask_there(tools, rate, limiter.clone(), end));
            }
        }
    }
    tasks.await;
}

async fn ask_there(tools: Rc<Tools>, rate: &str, limiter: RedisLimiter, end: Instant) {
    while Instant::now() < end {
        let asked = tools.earliest();
        let decision = limiter.decide(KEY, 1).await.expect("a decision");
        if let Decision::Granted(permit) = decision {
            let (answered, left) = (
                tools.latest(),
                permit.standing().remaining.expect("a store says it"),
            );
            say(&format!("{rate} {asked} {answered} {left}"));
        }
    }
}

async fn ask_here(tools: Rc<Tools>, rate: &str, borrowing: Fleet, end: Instant) {
    while Instant::now() < end {
        let asked = tools.earliest();
        if borrowing.acquire_owned(KEY, Demand::ONE).await.is_ok() {
            say(&format!("{rate} {asked} {} 0", tools.latest()));
            tokio::task::yield_now().await;
        } else {
            // It was refused here, without a round trip.
            sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(borrowing.totals().undecided, 0);
}

/// A grant: it was made between these moments of the server's clock, and so much was left.
#[derive(Clone, Copy)]
struct Grant {
    asked: u64,
    answered: u64,
    left: u64,
}

/// The grants of one rate.
struct Grants {
    all: Vec<Grant>,
    began: u64,
    ended: u64,
}

impl Grants {
    /// The most that were certainly made in a span of this length.
    fn most_in(&self, span: u64) -> u64 {
        let inside = |(first, grant): (usize, &Grant)| {
            let end = grant.asked + span;
            let near = self.all[first..]
                .iter()
                .take_while(|other| other.asked <= end);
            near.filter(|other| other.answered <= end).count()
        };
        let most = self.all.iter().enumerate().map(inside).max();
        u64::try_from(most.unwrap_or(0)).expect("small")
    }

    /// The most that were certainly made in one second of the clock.
    fn most_in_a_window(&self) -> u64 {
        let mut windows = std::collections::HashMap::new();
        for grant in &self.all {
            if grant.asked / SECOND == grant.answered / SECOND {
                *windows.entry(grant.asked / SECOND).or_insert(0) += 1;
            }
        }
        windows.into_values().max().unwrap_or(0)
    }

    fn count(&self) -> u64 {
        u64::try_from(self.all.len()).expect("small")
    }

    fn windows(&self) -> u64 {
        self.ended / SECOND - self.began / SECOND + 1
    }

    /// Of a bucket: in every span no more than it had and got, and `slack`; and most of it.
    fn fit_bucket(&self, (rate, burst): (u64, u64), slack: u64) {
        let elapsed = self.ended - self.began;
        for span in [SECOND / 100, SECOND / 10, SECOND, elapsed] {
            let granted = if span == elapsed {
                self.count()
            } else {
                self.most_in(span)
            };
            let bound = burst + rate * span / SECOND + 1 + slack;
            assert!(granted <= bound, "{granted} in {span} us, at most {bound}");
        }
        let supply = rate * seconds();
        assert!(self.count() >= supply / 2, "{} of {supply}", self.count());
    }

    /// Of windows: each is used up, except for the last.
    fn fit_windows(&self, limit: u64) {
        // As long as one window lasts everybody finds something else left.
        let mut left = vec![0; usize::try_from(limit).expect("small")];
        for grant in &self.all {
            left[usize::try_from(grant.left).expect("small")] += 1;
        }
        let windows = left.last().copied().expect("a limit");
        assert!(windows <= self.windows(), "{windows} windows");
        assert!(windows + 2 >= self.windows(), "{windows} windows");
        let each = |count: &u64| *count == windows || count + 1 == windows;
        assert!(left.iter().all(each), "{windows} windows: {left:?}");
        assert!(left.is_sorted(), "{left:?}");
    }
}

fn parse(line: &str) -> Option<(&str, Grant)> {
    let mut words = line.split(' ');
    let rate = words.next()?;
    let mut number = || words.next()?.parse().ok();
    let grant = Grant {
        asked: number()?,
        answered: number()?,
        left: number()?,
    };
    Some((rate, grant))
}

#[test]
fn of_one_key_exactly_the_limit_is_granted() {
    let server = Server::start();
    let (said, began, ended) = hammer(&server, "one key");
    let of = |rate: &str, process: &[String]| -> Vec<Grant> {
        let grants = process.iter().filter_map(|line| parse(line));
        grants
            .filter(|(other, _)| *other == rate)
            .map(|(_, grant)| grant)
            .collect()
    };
    for rate in RATES {
        let each: Vec<_> = said.iter().map(|process| of(rate, process)).collect();
        let numbers = || each.iter().map(Vec::len);
        let (least, most) = (numbers().min(), numbers().max());
        println!(
            "{rate}: {} granted to {PROCESSES} processes, {} to {} each",
            numbers().sum::<usize>(),
            least.unwrap_or(0),
            most.unwrap_or(0),
        );
        let mut all = each.concat();
        all.sort_unstable_by_key(|grant| grant.asked);
        let grants = Grants { all, began, ended };
        let borrowed = MOST * u64::try_from(PROCESSES).expect("small");
        match rate {
            "bucket" => grants.fit_bucket(BUCKET, 0),
            "borrowed-bucket" => grants.fit_bucket(BORROWED_BUCKET, borrowed),
            "window" => {
                assert!(grants.most_in_a_window() <= WINDOW);
                grants.fit_windows(WINDOW);
            }
            "borrowed-window" => {
                // Not even one too many, however it is borrowed.
                assert!(grants.most_in_a_window() <= BORROWED_WINDOW);
                assert!(grants.count() <= BORROWED_WINDOW * grants.windows());
                assert!(grants.count() >= BORROWED_WINDOW * seconds() / 2);
            }
            _ => {
                // A window that slides on by segments holds what was granted in any span shorter by a segment.
                let span = SECOND * (SEGMENTS - 1) / SEGMENTS;
                assert!(grants.most_in(span) <= WINDOW);
                assert!(grants.count() <= WINDOW * ((ended - began) / span + 1));
                assert!(grants.count() >= WINDOW * seconds() / 2);
            }
        }
    }
}
