//! Eight processes hammer one key, and ten thousand: never is more granted than the limit, nor less than it allows.
//!
//! For 2 seconds each; `PLIMSOLL_HAMMER_SECONDS=30` makes it 30. What each process got is printed with `--nocapture`.

mod children;
mod leases;
mod many_keys;
mod one_key;
mod process;
#[expect(dead_code, reason = "these tests do not use all of it")]
#[path = "../redis/server.rs"]
mod server;

/// How long a test hammers.
fn seconds() -> u64 {
    let seconds = std::env::var("PLIMSOLL_HAMMER_SECONDS").ok();
    seconds.and_then(|text| text.parse().ok()).unwrap_or(2)
}
