//! The server is killed, or stopped.

use std::time::Duration;

use crate::load::Load;
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again() {
    let server = Server::start();
    let (url, port) = (server.url(), server.port());
    let mut load = Load::on(&url, &url);
    load.decides(500).await;
    drop(server); // with SIGKILL
    load.suffers(500).await;
    assert!(load.store().outages() > 0);
    let server = Server::on(port, &[]);
    println!(
        "all are decided for again after {:?}",
        load.decides(1).await
    );
    load.decides(500).await;
    let report = load.finish().await;
    report.outage_was_answered();
    let tally = report.check(1).await;
    assert!(tally.not_asked > 0, "{tally:?}");
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_again_and_again() {
    let mut server = Server::start();
    let (url, port) = (server.url(), server.port());
    let mut load = Load::on(&url, &url);
    for _ in 0..3 {
        load.decides(100).await;
        drop(server);
        load.suffers(50).await;
        server = Server::on(port, &[]);
    }
    load.decides(500).await;
    load.finish().await.check(3).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_for_a_while() {
    let server = Server::start();
    let mut load = Load::on(&server.url(), &server.url());
    load.decides(500).await;
    server.signal("-STOP");
    load.goes_on(Duration::from_millis(1500)).await;
    server.signal("-CONT");
    println!(
        "all are decided for again after {:?}",
        load.decides(1).await
    );
    load.decides(500).await;
    let report = load.finish().await;
    report.outage_was_answered();
    let tally = report.check(0).await;
    // Some were under way, and all others were answered at once.
    assert!(
        tally.unknown > 0 && tally.not_asked > tally.unknown,
        "{tally:?}"
    );
}
