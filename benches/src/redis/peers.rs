//! Others who keep limits in Redis.

use std::rc::Rc;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder};

use super::contenders::{self, KEY, LIMIT};
use super::load::{Bench, Sample, Trial, asked};
use crate::contender::Contender;
use crate::contender::Role::Peer;

pub(super) fn all(bench: &Rc<Bench>) -> Vec<Contender<Trial, Sample>> {
    vec![
        asked(
            bench,
            Peer,
            "limitador's way: look, then count",
            LookThenCount::new(bench),
            |limiter| async move { limiter.ask().await },
        ),
        asked(
            bench,
            Peer,
            "trypema, sliding buckets of 10 ms",
            Trypema::new(bench),
            |trypema| async move { trypema.ask().await },
        ),
    ]
}

/// What limitador sends for each decision: it looks at the counter, and if there is room it counts, in two scripts. A
/// stand-in: its crate cannot be built with Redis alone, only together with its storage on disk.
struct LookThenCount {
    connection: MultiplexedConnection,
    look: Script,
    count: Script,
}

impl LookThenCount {
    fn new(bench: &Bench) -> Self {
        let look = "return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }";
        let count = "local count = redis.call('INCRBY', KEYS[1], ARGV[1])
            if count == tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
            return count";
        Self {
            connection: contenders::connection(bench),
            look: Script::new(look),
            count: Script::new(count),
        }
    }

    async fn ask(&self) -> bool {
        let mut connection = self.connection.clone();
        let seen = self.look.key(KEY).invoke_async(&mut connection).await;
        let (count, _ttl): (Option<u64>, i64) = seen.expect("a count");
        if count.unwrap_or(0) >= LIMIT {
            return false;
        }
        let mut counting = self.count.key(KEY);
        let counted = counting.arg(1).arg(1000).invoke_async(&mut connection);
        let _count: u32 = counted.await.expect("a count");
        true
    }
}

struct Trypema {
    provider: Arc<RedisRateLimiterProvider>,
    key: RedisKey,
    rate: RateLimit,
}

impl Trypema {
    fn new(bench: &Bench) -> Self {
        let client = Client::open(bench.server.url()).expect("an address");
        let provider = bench.runtime.block_on(async {
            let connection = client.get_connection_manager().await;
            RedisRateLimiterProvider::builder(connection.expect("a connection"))
                .window_size(trypema::WindowSize::seconds_or_panic(1))
                .bucket_size(trypema::BucketSize::milliseconds_or_panic(10))
                .build()
        });
        Self {
            provider: provider.expect("a valid limit"),
            key: RedisKey::try_from("customer-42").expect("a valid key"),
            rate: RateLimit::per_second(LIMIT as f64).expect("a valid rate"),
        }
    }

    async fn ask(&self) -> bool {
        let answer = self.provider.absolute().inc(&self.key, &self.rate, 1).await;
        matches!(answer, Ok(RateLimitDecision::Allowed))
    }
}
