//! The server behind an address is replaced by another, and those who are connected stay where they are.

use std::time::Duration;

use plimsoll_redis::{Decision, Store, StoreErrorKind};
use tokio::time::{Instant, sleep};

use crate::load::{DEADLINE, once};
use crate::proxy::Proxy;
use crate::server::Server;

/// The connection to what had become a replica was kept, and answered READONLY for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_server_that_became_a_replica_is_given_up() {
    let (old, new) = (Server::start(), Server::start());
    let proxy = Proxy::before(old.port()).await;
    let store = Store::builder(&proxy.url()).deadline(DEADLINE * 4);
    let store = store.open().expect("a store");
    let limiter = store.limiter("api", once(1000)).expect("a limiter");
    assert!(limiter.decide("x", 1).await.expect("decided").is_granted());
    let made = proxy.connections();

    let port = new.port().to_string();
    assert_eq!(old.cli(&["replicaof", "127.0.0.1", &port]), "OK");
    let error = limiter.decide("x", 1).await.expect_err("a replica");
    assert_eq!(error.kind(), StoreErrorKind::ReadOnly);
    // As long as the address leads to the replica it is not connected to with every call.
    for _ in 0..50 {
        assert!(limiter.decide("x", 1).await.is_err());
    }
    assert!(proxy.connections() <= made + 10, "{}", proxy.connections());

    proxy.moves_to(new.port());
    let began = Instant::now();
    while !matches!(limiter.decide("x", 1).await, Ok(Decision::Granted(_))) {
        assert!(began.elapsed() < Duration::from_secs(5), "for ever");
        sleep(Duration::from_millis(20)).await;
    }
    let stats = store.stats();
    assert!(stats.failures(StoreErrorKind::ReadOnly) >= 51, "{stats:?}");
    assert_eq!(
        stats.last_failure.expect("a cause").kind,
        StoreErrorKind::ReadOnly
    );
}
