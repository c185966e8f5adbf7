//! Clients that hang up.

use http_body_util::BodyExt;

use super::clients::{Http2, http1};
use super::{Written, is_idle};
use crate::eventually::{eventually, soon};

#[tokio::test]
async fn mid_body_over_http1() {
    let server = Written::new(1, 0).await;
    let body = server.body();
    let mut response = soon(http1().get(server.url()).send()).await.unwrap();
    body.send("one").unwrap();
    assert_eq!(soon(response.chunk()).await.unwrap().unwrap(), "one");
    assert_eq!(server.gate.snapshot().in_use(), 1);
    drop(response);
    // Nothing more is written: it has to be noticed all the same.
    eventually("the server notices", || is_idle(&server.gate)).await;
    assert!(body.is_closed());
}

#[tokio::test]
async fn mid_body_over_http2() {
    let server = Written::new(1, 0).await;
    let body = server.body();
    let mut client = Http2::connect(server.address).await;
    let mut response = soon(client.get(server.address)).await.unwrap();
    body.send("one").unwrap();
    assert!(soon(response.body_mut().frame()).await.is_some());
    assert_eq!(server.gate.snapshot().in_use(), 1);
    drop(response);
    eventually("the server notices", || is_idle(&server.gate)).await;
    // The connection goes on.
    drop(server.body());
    assert_eq!(
        soon(client.get(server.address)).await.unwrap().status(),
        200
    );
}

#[tokio::test]
async fn while_queued_over_http1() {
    let server = Written::new(1, 5).await;
    let (client, body) = (http1(), server.body());
    let first = soon(client.get(server.url()).send()).await.unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| tokio::spawn(client.get(server.url()).send()))
        .collect();
    eventually("they wait", || server.gate.snapshot().waiters() == 3).await;
    for task in &waiting {
        task.abort();
    }
    eventually("the server notices", || {
        server.gate.snapshot().waiters() == 0
    })
    .await;
    assert_eq!(server.gate.snapshot().in_use(), 1);
    drop(body);
    assert_eq!(soon(first.bytes()).await.unwrap(), "");
    eventually("all is done", || is_idle(&server.gate)).await;
    assert_eq!(server.gate.snapshot().cancelled_total(), 3);
}

#[tokio::test]
async fn while_queued_over_http2() {
    let server = Written::new(1, 5).await;
    let body = server.body();
    let mut client = Http2::connect(server.address).await;
    let first = soon(client.get(server.address)).await.unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| tokio::spawn(client.get(server.address)))
        .collect();
    eventually("they wait", || server.gate.snapshot().waiters() == 3).await;
    for task in &waiting {
        task.abort();
    }
    eventually("the server notices", || {
        server.gate.snapshot().waiters() == 0
    })
    .await;
    drop((body, first));
    eventually("all is done", || is_idle(&server.gate)).await;
}

#[tokio::test]
async fn a_connection_with_many_requests() {
    let server = Written::new(3, 3).await;
    let _bodies = [server.body(), server.body(), server.body()];
    let mut client = Http2::connect(server.address).await;
    let requests: Vec<_> = (0..6)
        .map(|_| tokio::spawn(client.get(server.address)))
        .collect();
    eventually("half of them wait", || {
        server.gate.snapshot().waiters() == 3
    })
    .await;
    assert_eq!(server.gate.snapshot().in_use(), 3);
    for request in requests {
        request.abort();
    }
    drop(client);
    eventually("the server notices", || is_idle(&server.gate)).await;
}
