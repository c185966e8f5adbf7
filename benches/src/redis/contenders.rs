//! Our limits in Redis, and the floors under them.
//!
//! All limits are so wide that nothing is ever refused, except where that is the question, and of sizes that people use:
//! a million a second.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{
    Concurrency, Demand, FixedWindow, PerKey, Quota, SlidingCounter, SlidingLog, SlidingWindow,
    TokenBucket,
};
use plimsoll_redis::{Borrow, Fleet, RedisLimiter, RedisRule, Store, StoreAsk};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd};

use super::load::{Bench, Sample, Trial, asked, asked_then, by_redis_benchmark};
use super::peers;
use crate::contender::Contender;
use crate::contender::Role::{Floor, Ours};

pub(super) const BUCKET: &str = "plimsoll token bucket";
pub(super) const HOT: &str = "plimsoll hot key, unborrowed";
pub(super) const BORROWED: &str = "plimsoll hot key, borrowed";
pub(super) const LEASE: &str = "plimsoll lease, taken and given back";
pub(super) const TOGETHER: &str = "plimsoll four limits, one decision";
pub(super) const IN_TURN: &str = "plimsoll four limits, one after the other";
pub(super) const INCR: &str = "INCR, same client";
pub(super) const PIPELINED: &str = "INCR by redis-benchmark, pipelined";

pub(super) const KEY: &str = "customer 42";
pub(super) const LIMIT: u64 = 1_000_000;

pub(super) fn all(bench: &Rc<Bench>) -> Vec<Contender<Trial, Sample>> {
    let store = Store::builder(&bench.server.url())
        // Waiting for a machine that others use as well is not what is measured.
        .deadline(Duration::from_secs(20))
        .open()
        .expect("an address");
    let limiter = |name: &str, rule: RedisRule| store.limiter(name, rule).expect("a valid limit");
    let quota = Quota::per_second(LIMIT);
    let granted = |name, rule: RedisRule| {
        asked(
            bench,
            Ours,
            name,
            limiter("bench", rule),
            |limiter| async move { is_granted(&limiter).await },
        )
    };
    // Empty after the first, which is not counted.
    let empty = TokenBucket::greedy(Quota::per_day(1));
    // More than anybody can ask for: what is borrowed is decided here, millions of times a second.
    let hot = TokenBucket::greedy(Quota::new(2_000_000, Duration::from_millis(100)));
    let borrowed = limiter("borrowed", hot.clone().into()).fleet();
    let borrowed = borrowed.borrowing(Borrow::new()).build();
    let four = || {
        let four = [
            limiter("user", TokenBucket::per_second(LIMIT).into()),
            limiter("tenant", FixedWindow::new(quota).into()),
            limiter("region", SlidingCounter::new(quota).into()),
            limiter("everybody", SlidingLog::new(quota).into()),
        ];
        (store.clone(), four)
    };
    let mut all = vec![
        granted(HOT, hot.into()),
        asked_then(
            bench,
            Ours,
            BORROWED,
            borrowed.expect("a valid limit"),
            |fleet| async move { fleet.acquire_owned(KEY, Demand::ONE).await.is_ok() },
            |fleet| async move { return_all(&fleet).await },
        ),
        granted(BUCKET, TokenBucket::per_second(LIMIT).into()),
        asked(
            bench,
            Ours,
            "plimsoll token bucket, denied",
            limiter("empty", empty.into()),
            |limiter| async move { !is_granted(&limiter).await },
        ),
        granted("plimsoll fixed window", FixedWindow::new(quota).into()),
        granted(
            "plimsoll sliding window, 10 segments",
            SlidingWindow::new(quota, 10).into(),
        ),
        granted(
            "plimsoll sliding counter",
            SlidingCounter::new(quota).into(),
        ),
        granted("plimsoll sliding log", SlidingLog::new(quota).into()),
        asked(
            bench,
            Ours,
            LEASE,
            limiter("lease", Concurrency::new(LIMIT).into()),
            |limiter| async move {
                let decision = limiter.decide(KEY, 1).await.expect("a decision");
                match decision.into_result() {
                    Ok(permit) => permit.release().await.expect("a release"),
                    Err(_) => false,
                }
            },
        ),
        asked(bench, Ours, TOGETHER, four(), |four| async move {
            let (store, limiters) = &*four;
            let asks = limiters.each_ref();
            let asks = asks.map(|limiter| StoreAsk::new(limiter, limiter.name(), 1));
            let decision = store.decide_all(&asks).await.expect("a decision");
            decision.is_admitted()
        }),
        asked(bench, Ours, IN_TURN, four(), |four| async move {
            let mut granted = true;
            for limiter in &four.1 {
                let decision = limiter.decide(limiter.name(), 1).await;
                granted &= decision.expect("a decision").is_granted();
            }
            granted
        }),
        asked(
            bench,
            Floor,
            INCR,
            connection(bench),
            |connection| async move {
                let mut connection = MultiplexedConnection::clone(&connection);
                let mut command = Cmd::with_capacity(2, 16);
                command.arg("INCR").arg("counter");
                let count: u64 = command.query_async(&mut connection).await.expect("a count");
                count > 0
            },
        ),
        by_redis_benchmark(bench, PIPELINED),
    ];
    all.extend(peers::all(bench));
    all
}

/// Gives back what is borrowed, also what is still on its way: it is here when what is sent after it is answered.
async fn return_all(fleet: &Fleet) {
    for _ in 0..2 {
        fleet.store().ping().await.expect("a store that answers");
        fleet.give_back().await.expect("a store that answers");
    }
}

async fn is_granted(limiter: &Arc<RedisLimiter>) -> bool {
    let decision = limiter.decide(KEY, 1).await.expect("a decision");
    decision.is_granted()
}

/// A connection such as the store has.
pub(super) fn connection(bench: &Bench) -> MultiplexedConnection {
    let client = Client::open(bench.server.url()).expect("an address");
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let connection = bench.runtime.block_on(connecting);
    connection.expect("a connection")
}
