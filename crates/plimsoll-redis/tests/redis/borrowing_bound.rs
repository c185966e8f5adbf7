//! However many processes borrow, and whatever they do: never more is granted than is said.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::property::for_all;
use crate::server::Server;
use plimsoll::{
    Demand, FixedWindow, ManualClock, Moment, PerKey, Permit, Quota, SlidingCounter, SlidingLog,
    SlidingWindow, TokenBucket,
};
use plimsoll_redis::{Borrow, Fleet, RedisRule};
use proptest::prelude::*;
use tokio::runtime::Runtime;

const KEY: &str = "subject";
const MEMBERS: usize = 3;
const MOST: u64 = 12;
const LIMIT: u64 = 200;
const WINDOW: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
enum Step {
    /// A member asks, so often, for so much, in so many milliseconds each.
    Ask {
        member: usize,
        times: u64,
        cost: u64,
        pause: u64,
    },
    /// All at once.
    Rush {
        times: usize,
    },
    Idle(u64),
    /// All borrow, and use it as late as they can; then all want everything.
    Border {
        before: u64,
    },
    /// The last grant was not needed.
    Undo,
    /// A member ends, giving back what it has, and another takes its place.
    Replace {
        member: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let member = 0..MEMBERS;
    let ask = (member.clone(), 1..20_u64, 1..4_u64, 0..8_u64);
    let step = prop_oneof![
        6 => ask.prop_map(|(member, times, cost, pause)| Step::Ask { member, times, cost, pause }),
        1 => (1..150_usize).prop_map(|times| Step::Rush { times }),
        2 => (0..12_u64).prop_map(|before| Step::Border { before }),
        2 => (0..300_u64).prop_map(Step::Idle),
        1 => (190..210_u64).prop_map(Step::Idle),
        1 => Just(Step::Undo),
        1 => member.prop_map(|member| Step::Replace { member }),
    ];
    prop::collection::vec(step, 1..16)
}

struct Members {
    server: Server,
    /// Nobody else's: what others give back late is not to be found here.
    namespace: String,
    clock: ManualClock,
    rule: RedisRule,
    borrow: Borrow,
    /// What was granted, and when.
    granted: Vec<(Moment, u64, Permit<'static>)>,
}

impl Members {
    /// Built at one moment, so that their windows begin together.
    fn build(&self) -> Vec<Fleet> {
        let member = |_| {
            let store = self.server.store().namespace(&self.namespace);
            let store = store.clock(self.clock.clock());
            let store = store.open().expect("a store");
            let limiter = store.limiter("api", self.rule.clone()).expect("a limiter");
            let fleet = limiter.fleet().borrowing(self.borrow);
            fleet.build().expect("a fleet")
        };
        (0..MEMBERS * 8).map(member).collect()
    }

    async fn run(&mut self, steps: &[Step]) {
        let mut spare = self.build();
        let mut members = spare.split_off(spare.len() - MEMBERS);
        for step in steps {
            match *step {
                Step::Ask {
                    member,
                    times,
                    cost,
                    pause,
                } => {
                    for _ in 0..times {
                        let answer = members[member].acquire_owned(KEY, Demand::of(cost));
                        if let Ok(permit) = answer.await {
                            self.granted.push((self.clock.now(), cost, permit));
                        }
                        self.clock.advance(Duration::from_millis(pause));
                    }
                }
                Step::Border { before } => {
                    for member in &members {
                        self.ask(member, 13).await;
                    }
                    self.clock.advance(WINDOW - Duration::from_millis(before));
                    for member in &members {
                        self.ask(member, MOST).await;
                    }
                    self.clock.advance(Duration::from_millis(before));
                    for member in &members {
                        self.ask(member, LIMIT).await;
                    }
                }
                Step::Rush { times } => {
                    let all: Vec<_> = (0..times)
                        .map(|turn| members[turn % MEMBERS].acquire_owned(KEY, Demand::ONE))
                        .map(tokio::spawn)
                        .collect();
                    for each in all {
                        if let Ok(permit) = each.await.expect("no panic") {
                            self.granted.push((self.clock.now(), 1, permit));
                        }
                    }
                }
                Step::Idle(millis) => {
                    self.clock.advance(Duration::from_millis(millis));
                    tokio::task::yield_now().await;
                }
                Step::Undo => {
                    if let Some((_, _, permit)) = self.granted.pop() {
                        permit.undo();
                    }
                }
                Step::Replace { member } => {
                    if let Some(next) = spare.pop() {
                        // The permits that are out keep it alive, and with it what it has borrowed.
                        let _ = members[member].give_back().await;
                        members[member] = next;
                    }
                }
            }
        }
    }

    /// Asks for one at a time, until it is refused.
    async fn ask(&mut self, member: &Fleet, times: u64) {
        for _ in 0..times {
            match member.acquire_owned(KEY, Demand::ONE).await {
                Ok(permit) => self.granted.push((self.clock.now(), 1, permit)),
                Err(_) => return,
            }
        }
    }

    /// The most that was granted in any span of this length.
    fn most_in(&self, span: Duration) -> u64 {
        let sums = self.granted.iter().enumerate().map(|(first, (from, ..))| {
            let inside = self.granted[first..].iter();
            let inside = inside.take_while(|(at, ..)| at.since(*from) < span);
            inside.map(|(_, cost, _)| cost).sum()
        });
        sums.max().unwrap_or(0)
    }
}

/// Runs cases; `check` says of a run how much was granted at most, and how much may have been.
fn holds(rule: impl Into<RedisRule>, check: impl Fn(&Members) -> (u64, u64)) {
    let rule = rule.into();
    let runtime = Runtime::new().expect("a runtime");
    let case = AtomicU32::new(0);
    let server = std::cell::RefCell::new(Some(Server::start()));
    let cases = (steps(), 5..400_u64);
    for_all(15, &cases, |(steps, keep)| {
        let server_now = server.borrow_mut().take().unwrap_or_else(Server::start);
        let case = case.fetch_add(1, Ordering::Relaxed);
        let keep = Duration::from_millis(keep);
        let mut members = Members {
            server: server_now,
            namespace: case.to_string(),
            clock: ManualClock::starting_at(Moment::from_nanos(1_789_000_000_000_000_000)),
            rule: rule.clone(),
            borrow: Borrow::new().max(MOST).keep(keep),
            granted: Vec::new(),
        };
        runtime.block_on(members.run(&steps));
        let (granted, bound) = check(&members);
        prop_assert!(granted <= bound, "{} granted, {} at most", granted, bound);
        drop(std::mem::take(&mut members.granted));
        *server.borrow_mut() = Some(members.server);
        Ok(())
    });
}

const QUOTA: Quota = Quota::new(LIMIT, WINDOW);
const SLACK: u64 = 3 * MOST;

#[test]
fn of_fixed_windows_not_even_one_too_many() {
    holds(FixedWindow::new(QUOTA), |members| {
        let start = Moment::from_nanos(1_789_000_000_000_000_000);
        let mut windows = std::collections::HashMap::new();
        for (at, cost, _) in &members.granted {
            let window = at.since(start).as_nanos() / WINDOW.as_nanos();
            *windows.entry(window).or_insert(0) += cost;
        }
        (windows.into_values().max().unwrap_or(0), LIMIT)
    });
}

#[test]
fn of_sliding_logs() {
    holds(SlidingLog::new(QUOTA), |members| {
        (members.most_in(WINDOW), LIMIT + SLACK)
    });
}

#[test]
fn of_sliding_windows() {
    // A window that slides on by segments holds what was granted in any span shorter by a segment.
    holds(SlidingWindow::new(QUOTA, 10), |members| {
        (members.most_in(WINDOW * 9 / 10), LIMIT + SLACK)
    });
}

#[test]
fn of_sliding_counters() {
    // An estimate: in a span of the window's length there may be twice the limit, whoever counts.
    holds(SlidingCounter::new(QUOTA), |members| {
        (members.most_in(WINDOW), 2 * LIMIT + SLACK)
    });
}

#[test]
fn of_token_buckets_in_spans_of_all_lengths() {
    let bucket = TokenBucket::greedy(QUOTA).burst(100);
    holds(bucket, |members| {
        let mut worst = (0, u64::MAX);
        for millis in [1, 10, 50, 200, 1000] {
            let granted = members.most_in(Duration::from_millis(millis));
            let supplied = millis * LIMIT / 200;
            let bound = 100 + supplied + 1 + SLACK;
            if bound.saturating_sub(granted) < worst.1.saturating_sub(worst.0) {
                worst = (granted, bound);
            }
        }
        worst
    });
}
