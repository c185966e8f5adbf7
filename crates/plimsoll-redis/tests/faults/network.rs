//! The network between the store and those who ask is slow, deaf or dead.

use std::time::Duration;

use crate::load::{DEADLINE, Load};
use crate::proxy::{Proxy, Weather};
use crate::server::Server;

async fn behind_a_proxy() -> (Server, Proxy, Load) {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let mut load = Load::on(&proxy.url(), &server.url());
    load.decides(500).await;
    (server, proxy, load)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_within_the_deadline_only_takes_longer() {
    let (_server, proxy, mut load) = behind_a_proxy().await;
    proxy.turns(Weather::Slow(Duration::from_millis(20)));
    load.decides(500).await;
    proxy.turns(Weather::Fair);
    load.finish().await.check(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_slower_than_the_deadline() {
    let (_server, proxy, mut load) = behind_a_proxy().await;
    proxy.turns(Weather::Slow(DEADLINE * 3));
    load.suffers(500).await;
    proxy.turns(Weather::Fair);
    load.decides(500).await;
    let tally = load.finish().await.check(0).await;
    assert!(tally.unknown > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_stalls() {
    let (_server, proxy, mut load) = behind_a_proxy().await;
    proxy.turns(Weather::Stalled);
    load.goes_on(Duration::from_secs(1)).await;
    proxy.turns(Weather::Fair);
    println!(
        "all are decided for again after {:?}",
        load.decides(1).await
    );
    load.decides(500).await;
    let report = load.finish().await;
    report.outage_was_answered();
    let tally = report.check(0).await;
    assert!(tally.unknown > 0 && tally.not_asked > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_cut() {
    let (_server, proxy, mut load) = behind_a_proxy().await;
    let before = proxy.connections();
    for _ in 0..3 {
        proxy.turns(Weather::Cut);
        load.suffers(100).await;
        proxy.turns(Weather::Fair);
        load.decides(100).await;
    }
    load.decides(300).await;
    assert!(proxy.connections() >= before + 3);
    load.finish().await.check(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_half_of_the_answers() {
    let (_server, proxy, mut load) = behind_a_proxy().await;
    proxy.turns(Weather::HalfDeaf);
    // Every second connection is of use, and is found.
    load.suffers(50).await;
    load.decides(500).await;
    proxy.turns(Weather::Fair);
    load.decides(500).await;
    let tally = load.finish().await.check(0).await;
    assert!(tally.unknown > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_end_instead_of_an_answer() {
    let (_server, proxy, mut load) = behind_a_proxy().await;
    for _ in 0..5 {
        let before = proxy.connections();
        proxy.turns(Weather::Broken(before));
        load.until("another connection", || proxy.connections() > before)
            .await;
        load.decides(100).await;
    }
    let tally = load.finish().await.check(0).await;
    // They were charged, and not asked again, though the next connection is good.
    assert!(tally.unknown > 0, "{tally:?}");
}
