//! Limits from a file, as one thing that decides.

mod allocations;
mod bodies;
#[path = "../../../plimsoll/tests/counting/mod.rs"]
mod counting;
mod decisions;
mod events;
mod fast_path;
mod hostile_keys;
mod kinds;
mod large;
mod layer;
mod model;
#[cfg(feature = "redis")]
mod model_redis;
mod model_requests;
mod partners;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
#[path = "../../../plimsoll-server/tests/server/redis_server.rs"]
#[expect(dead_code, reason = "shared with the tests of another crate")]
mod redis_server;
mod requests;
mod reserve;
mod saved;
mod server;
mod shadow;
mod tiers;
mod typed;
#[cfg(unix)]
mod watched;

use plimsoll::ManualClock;
use plimsoll_config::{Config, Format};
use plimsoll_engine::Limits;

/// The limits of a text, on a clock that is set by hand.
#[track_caller]
fn limits(text: &str) -> (Limits, ManualClock) {
    let time = ManualClock::new();
    let config = Config::from_str("limits.yaml", text, Format::Yaml);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let limits = Limits::new(&config, &time.clock()).unwrap_or_else(|error| panic!("{error}"));
    (limits, time)
}
