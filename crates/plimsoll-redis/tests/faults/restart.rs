//! A server restarts under load, and all processes come back soon.

use std::time::Duration;

use plimsoll_redis::{Decision, Store, StoreEvent};
use tokio::time::{Instant, sleep};

use crate::load::once;
use crate::server::Server;

/// Of several processes one came back at once and another after 3.7 s: the pauses had grown to 5 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_back_soon_after_a_long_outage() {
    let server = Server::start();
    let port = server.port();
    let stores: Vec<_> = (0..8)
        .map(|_| {
            let store = Store::builder(&server.url()).deadline(Duration::from_millis(500));
            store.open().expect("a store")
        })
        .collect();
    let mut events = stores[0].subscribe();
    let limiters: Vec<_> = stores
        .iter()
        .map(|store| store.limiter("api", once(1_000_000)).expect("a limiter"))
        .collect();
    drop(server); // with SIGKILL
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        for limiter in &limiters {
            let _ = limiter.decide("x", 1).await;
        }
        sleep(Duration::from_millis(5)).await;
    }
    assert!(stores.iter().all(|store| store.outages() > 0));
    let _server = Server::on(port, &[]);
    let back = Instant::now();
    let mut waiting = limiters;
    while !waiting.is_empty() {
        let mut left = Vec::new();
        for limiter in waiting {
            if !matches!(limiter.decide("x", 1).await, Ok(Decision::Granted(_))) {
                left.push(limiter);
            }
        }
        waiting = left;
        assert!(
            back.elapsed() < Duration::from_millis(1500),
            "{}",
            waiting.len()
        );
        sleep(Duration::from_millis(5)).await;
    }
    let mut told = (false, false);
    while let Some(event) = events.try_next() {
        told.0 |= event == StoreEvent::Opened;
        told.1 |= event == StoreEvent::Closed;
    }
    assert_eq!(told, (true, true));
}
