//! Limits of a file that are kept in Redis: shared, changed while they are used, and without a Redis.

mod changed;
mod connections;
#[path = "../../../../plimsoll-redis/tests/redis/server.rs"]
#[expect(dead_code, reason = "shared with the tests of another crate")]
mod server;
mod shared;

use std::time::Duration;

use plimsoll::Clock;
use plimsoll_config::Limits;
use plimsoll_kinds::AnyLimiter;

use self::server::Server;
use crate::files::config;

/// A store on this server as a file describes it, patient enough for a machine with much to do.
fn described(server: &Server) -> String {
    format!("url: '{}', deadline: 20s", server.url())
}

/// Every kind that can be kept, with a limit of its own, on so long a time that none of it passes.
const KINDS: [&str; 7] = [
    "fixed_window, window: 10000d, limit: ",
    "sliding_window, window: 10000d, segments: 10, limit: ",
    "sliding_log, window: 1d, limit: ",
    "sliding_counter, window: 10000d, limit: ",
    "token_bucket, refill: 1, every: 10000d, style: interval, burst: ",
    "bandwidths, limits: [{ refill: 1, every: 10000d, style: interval, burst: ",
    "concurrency, limit: ",
];

/// A limiter of a kind with a limit.
fn limiter(kind: &str, limit: u64, more: &str) -> String {
    let end = if kind.contains('[') { " }]" } else { "" };
    format!("{{ kind: {kind}{limit}{end}, {more} }}")
}

fn build(text: &str) -> Limits {
    config(text).build(&Clock::system()).expect("builds")
}

fn one(limits: &Limits, name: &str) -> AnyLimiter {
    limits.limiter(name).expect("there")
}

/// Asks until it is granted: what is given back goes back in the background.
async fn granted(limiter: &AnyLimiter) {
    let granted = async {
        while limiter.acquire(1.into()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let granted = tokio::time::timeout(Duration::from_secs(20), granted);
    granted.await.expect("it is given back");
}
