//! The server does as somebody told it: it drops its clients, its data, its scripts.

use crate::load::Load;
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_thrown_out() {
    let server = Server::start();
    let mut load = Load::on(&server.url(), &server.url());
    for _ in 0..10 {
        load.decides(100).await;
        server.cli(&["client", "kill", "type", "normal"]);
    }
    load.decides(500).await;
    load.finish().await.check(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_deleted() {
    let server = Server::start();
    let mut load = Load::on(&server.url(), &server.url());
    for _ in 0..3 {
        load.decides(300).await;
        assert_eq!(server.cli(&["flushall"]), "OK");
    }
    load.decides(300).await;
    let outages = load.store().outages();
    load.finish().await.check(3).await;
    assert_eq!(outages, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_forgotten() {
    let server = Server::start();
    let mut load = Load::on(&server.url(), &server.url());
    for _ in 0..10 {
        load.decides(100).await;
        assert_eq!(server.cli(&["script", "flush"]), "OK");
    }
    load.decides(300).await;
    load.finish().await.check(0).await;
}
