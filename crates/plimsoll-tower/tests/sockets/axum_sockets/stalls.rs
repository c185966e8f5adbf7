//! Clients that do not read. In real time: that is what the claim is about.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use http_body_util::BodyExt;
use plimsoll::{Concurrency, Gate};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::clients::{Http2, http1};
use super::{is_idle, serve, slots};
use crate::eventually::{eventually, soon};

const PART: usize = 64 * 1024;
const PARTS: usize = 128;
const STALL: Duration = Duration::from_millis(200);

/// 8 MB in parts.
async fn large() -> Body {
    let parts = (0..PARTS).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(&[7; PART])));
    Body::from_stream(stream::iter(parts))
}

/// Two words with a pause between them that is longer than anybody may stall.
async fn slow() -> Body {
    let words = stream::unfold(0, |sent| async move {
        if sent == 2 {
            return None;
        }
        sleep(STALL * u32::from(sent > 0) * 3).await;
        Some((Ok::<_, std::io::Error>(Bytes::from("word")), sent + 1))
    });
    Body::from_stream(words)
}

async fn server(limit: u64, stall: Option<Duration>) -> (SocketAddr, Gate<Concurrency>) {
    let gate = slots(limit, 0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let layer = match stall {
        Some(longest) => layer.stall_timeout(longest),
        None => layer,
    };
    let router = Router::new()
        .route("/", get(large))
        .route("/slow", get(slow))
        .layer(layer);
    (serve(router).await, gate)
}

/// Asks, and does not read.
async fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    stream
}

/// Ten clients that never read held ten slots until they hung up.
#[tokio::test]
async fn clients_that_never_read_do_not_hold_their_slots_for_ever() {
    let (address, gate) = server(10, Some(STALL)).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(ask(address).await);
    }
    eventually("they are let in", || gate.snapshot().granted_total() == 10).await;
    eventually("their slots are free", || is_idle(&gate)).await;
    // Another one is served.
    let response = soon(http1().get(format!("http://{address}/")).send()).await;
    let body = soon(response.unwrap().bytes()).await.unwrap();
    assert_eq!(body.len(), PART * PARTS);
    // A client that reads on after all does not get the rest.
    let mut rest = Vec::new();
    let _ = soon(clients[0].read_to_end(&mut rest)).await;
    assert!(rest.len() < PART * PARTS && !rest.ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn a_stream_that_is_not_read_does_not_hold_its_slot_either() {
    let (address, gate) = server(1, Some(STALL)).await;
    let mut client = Http2::connect(address).await;
    let mut response = soon(client.get(address)).await.unwrap();
    eventually("its slot is free", || is_idle(&gate)).await;
    let mut read = 0;
    let failed = loop {
        match soon(response.body_mut().frame()).await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) => break true,
            None => break false,
        }
    };
    assert!(failed && read < PART * PARTS);
}

#[tokio::test]
async fn unless_told_slots_are_held_while_the_connection_lasts() {
    let (address, gate) = server(1, None).await;
    let client = ask(address).await;
    eventually("it is let in", || gate.snapshot().in_use() == 1).await;
    sleep(STALL * 2).await;
    assert_eq!(gate.snapshot().in_use(), 1);
    drop(client);
    eventually("the slot is free", || is_idle(&gate)).await;
}

#[tokio::test]
async fn a_handler_that_takes_its_time_does_not_stall() {
    let (address, gate) = server(1, Some(STALL)).await;
    let response = soon(http1().get(format!("http://{address}/slow")).send()).await;
    assert_eq!(soon(response.unwrap().text()).await.unwrap(), "wordword");
    eventually("the slot is free", || is_idle(&gate)).await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_and_steadily_does_not_stall() {
    let (address, gate) = server(1, Some(STALL * 10)).await;
    let mut client = ask(address).await;
    let mut part = vec![0; PART * 16];
    let mut read = 0;
    while read < PART * PARTS {
        let count = soon(client.read(&mut part)).await.unwrap();
        assert_ne!(count, 0, "after {read}");
        read += count;
        sleep(STALL / 50).await;
    }
    eventually("the slot is free", || is_idle(&gate)).await;
}
