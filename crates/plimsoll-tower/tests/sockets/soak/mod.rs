//! Many requests over sockets of the loopback interface, through every kind of limit at once, from clients that hang up at
//! random. Afterwards nothing is in flight, nobody waits, and every request is accounted for.
//!
//! What each client does follows from a seed, which is printed. `PLIMSOLL_SEED` sets it, and `PLIMSOLL_SOAK_REQUESTS` the
//! number of requests: 5,000 by default, which takes some seconds; 100,000 for a long run.

mod chance;
mod clients;
mod raw;
mod server;

use crate::eventually::{eventually, soon};
use chance::Chance;
use clients::{Client, Tally};
use server::Server;

/// How many workers of each kind there are. Those by hand are cheap, so they are most.
const BY_HAND: usize = 30;
const POOLED: usize = 3;
const MULTIPLEXED: usize = 3;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_many_requests_nothing_is_left() {
    let seed = setting("PLIMSOLL_SEED").unwrap_or(0x5eed);
    let requests = setting("PLIMSOLL_SOAK_REQUESTS").unwrap_or(5_000);
    println!("PLIMSOLL_SEED={seed} PLIMSOLL_SOAK_REQUESTS={requests}");

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
