//! What each of the processes does.

use std::io::Write;
use std::time::Duration;

use plimsoll_redis::Store;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

use crate::children::SAYS;
use crate::server::patient;
use crate::{leases, many_keys, one_key};

/// What a process works with.
pub(crate) struct Tools {
    pub(crate) store: Store,
    /// For what is counted without limiters.
    pub(crate) plain: MultiplexedConnection,
    clock: ServerClock,
}

/// The time by the clock of the server, within bounds: it was asked once, and what has passed since is known.
#[derive(Clone, Copy)]
struct ServerClock {
    told: u64,
    /// Between these it was told.
    asked: Instant,
    answered: Instant,
}

impl Tools {
    async fn new(url: &str) -> Self {
        let client = redis::Client::open(url).expect("an address");
        let plain = client.get_multiplexed_async_connection().await;
        let mut plain = plain.expect("a connection");
        let asked = Instant::now();
        let (seconds, micros): (u64, u64) = redis::cmd("TIME")
            .query_async(&mut plain)
            .await
            .expect("the time");
        let clock = ServerClock {
            told: seconds * 1_000_000 + micros,
            asked,
            answered: Instant::now(),
        };
        Self {
            store: patient(Store::builder(url)).open().expect("a store"),
            plain,
            clock,
        }
    }

    /// The earliest it can be by the clock of the server, in microseconds.
    pub(crate) fn earliest(&self) -> u64 {
        self.clock.told + micros(self.clock.answered.elapsed())
    }

    /// The latest.
    pub(crate) fn latest(&self) -> u64 {
        self.clock.told + micros(self.clock.asked.elapsed()) + 1
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).expect("a short span")
}

/// Says something to the one who started this process.
pub(crate) fn say(what: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{SAYS}{what}").expect("somebody listens");
}

/// Nothing, unless another test has started this program for it.
#[test]
fn one_of_them() {
    let Ok(job) = std::env::var("PLIMSOLL_HAMMER_JOB") else {
        return;
    };
    let url = std::env::var("PLIMSOLL_HAMMER_URL").expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let tools = Tools::new(&url).await;
        // Connects, so that all begin together.
        let limiter = tools
            .store
            .limiter("warm", plimsoll::TokenBucket::per_second(1));
        let first = limiter.expect("a limiter").decide("up", 1).await;
        drop(first.expect("a decision"));
        say("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("a line");
        match job.as_str() {
            "one key" => one_key::run(tools).await,
            "many keys" => many_keys::run(tools).await,
            "leases" => leases::run(tools).await,
            "hold" => leases::hold(tools).await,
            other => panic!("{other}"),
        }
        say("done");
    });
}
