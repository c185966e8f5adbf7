//! Behind `axum::serve`: limits, addresses, and a shutdown that waits for whom it should.

#![cfg(feature = "axum")]
#![cfg_attr(
    feature = "axum",
    expect(
        clippy::unwrap_used,
        reason = "a test that cannot be set up has failed"
    )
)]

use std::net::SocketAddr;
use std::sync::Arc;

use crate::queued::queued;
use crate::settle::settle;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use plimsoll::{Address, Concurrency, Keyed, ManualClock};
use plimsoll_tokio::LimitedListener;
use plimsoll_tokio::listener::Peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Asks for `path`, and says that nothing more will be asked for.
async fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    client
}

/// What the server answers until it closes the connection. Nothing if it does not serve it at all.
async fn answer(mut client: TcpStream) -> String {
    let mut answer = Vec::new();
    let _reset = client.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_handler_knows_where_a_request_comes_from() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = LimitedListener::new(listener);
    let address = listener.local_addr().unwrap();
    let app = Router::new().route(
        "/",
        get(|ConnectInfo(Peer(peer)): ConnectInfo<Peer>| async move { peer.to_string() }),
    );
    let app = app.into_make_service_with_connect_info::<Peer>();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let client = ask(address, "/").await;
    let peer = client.local_addr().unwrap().to_string();
    assert!(answer(client).await.ends_with(&peer));
    server.abort();
}

#[tokio::test]
async fn a_graceful_shutdown_serves_who_is_in_and_nobody_who_waits() {
    let total = queued(Concurrency::new(2), &ManualClock::new());
    let per_address: Keyed<Address, _> = Keyed::new(Concurrency::new(100));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = LimitedListener::new(listener)
        .total(total.clone())
        .per_address(per_address);
    let address = listener.local_addr().unwrap();
    let counts = listener.counts();
    let (entered, finish, stop) = (
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
    );
    let app = Router::new().route(
        "/",
        get({
            let (entered, finish) = (Arc::clone(&entered), Arc::clone(&finish));
            move || async move {
                entered.notify_one();
                finish.notified().await;
                "done"
            }
        }),
    );
    let server = tokio::spawn({
        let stop = Arc::clone(&stop);
        let signal = async move { stop.notified().await };
        async move {
            axum::serve(listener, app)
                .with_graceful_shutdown(signal)
                .await
        }
    });
    let mut inside = Vec::new();
    for _ in 0..2 {
        inside.push(ask(address, "/").await);
        entered.notified().await;
    }
    let waiting = [ask(address, "/").await, ask(address, "/").await];
    settle().await;
    assert_eq!(
        (total.snapshot().in_use(), total.snapshot().waiters()),
        (2, 1)
    );
    assert_eq!(counts.accepted(), 2);

    stop.notify_one();
    for client in waiting {
        assert_eq!(answer(client).await, "", "it was never accepted");
    }
    assert_eq!(total.snapshot().waiters(), 0);
    assert!(!server.is_finished());
    finish.notify_waiters();
    for client in inside {
        assert!(answer(client).await.ends_with("done"));
    }
    server.await.unwrap().unwrap();
    assert_eq!(total.snapshot().in_use(), 0);
    assert_eq!(counts.accepted(), 2);
}

#[tokio::test]
async fn who_waits_is_served_when_another_leaves() {
    let total = queued(Concurrency::new(1), &ManualClock::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = LimitedListener::new(listener).total(total.clone());
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/", get(|| async { "served" }));
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut crowd = Vec::new();
    for _ in 0..20 {
        crowd.push(ask(address, "/").await);
    }
    for client in crowd {
        assert!(answer(client).await.ends_with("served"));
    }
    // A closed limiter lets nobody in, and does not end the server.
    total.close();
    settle().await;
    assert!(!server.is_finished());
    server.abort();
}
