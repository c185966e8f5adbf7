//! A hundred thousand requests over sockets of the loopback interface, through every kind of limit at once, from clients that
//! hang up when they feel like it. Afterwards nothing is in flight, nobody waits, and every request is accounted for.
//!
//! What each client does follows from a seed, which is printed when the test fails. `PLIMSOLL_SOAK_SEED` sets it, and
//! `PLIMSOLL_SOAK_REQUESTS` how many requests there are.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../support/eventually.rs"]
mod eventually;

mod chance;
mod clients;
mod raw;
mod server;

use std::hash::{BuildHasher, RandomState};

use chance::Chance;
use clients::{Client, Tally};
use eventually::{eventually, soon};
use server::Server;

/// How many workers of each kind there are. Those by hand are cheap, so they are most.
const BY_HAND: usize = 30;
const POOLED: usize = 3;
const MULTIPLEXED: usize = 3;

/// Tells the seed of a test that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("PLIMSOLL_SOAK_SEED={}", self.0);
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_hundred_thousand_requests_nothing_is_left() {
    let seed = setting("PLIMSOLL_SOAK_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let _told = Seed(seed);
    let requests = setting("PLIMSOLL_SOAK_REQUESTS").unwrap_or(100_000);

    let server = Server::start().await;
    let (pool, http2) = (Client::http1(), soon(Client::http2(server.address)).await);
    let clients = std::iter::repeat_n(Client::raw(), BY_HAND)
        .chain(std::iter::repeat_n(pool, POOLED))
        .chain(std::iter::repeat_n(http2, MULTIPLEXED));
    let workers = (BY_HAND + POOLED + MULTIPLEXED) as u64;
    let tasks: Vec<_> = (0..workers)
        .zip(clients)
        .map(|(number, client)| {
            let chance = Chance::new(seed.wrapping_add(number));
            let share = requests / workers + u64::from(number < requests % workers);
            tokio::spawn(client.work(server.address, chance, share))
        })
        .collect();
    let mut tally = Tally::default();
    for task in tasks {
        tally += task.await.unwrap();
    }
    eventually("nothing is in flight and nobody waits", || server.is_idle()).await;

    println!("{tally:?}\n{:#?}", server.counts());
    assert_eq!(tally.sent(), requests);
    assert_eq!(tally.broken, 0, "no connection broke");
    server.check(&tally);
}
