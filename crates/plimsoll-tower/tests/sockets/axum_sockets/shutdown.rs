//! A server that shuts down while requests wait.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use plimsoll::{Concurrency, Gate};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::clients::http1;
use super::{is_idle, slots};
use crate::eventually::{eventually, soon};

type Answer = JoinHandle<reqwest::Result<reqwest::Response>>;

/// A server with one request at work and two that wait.
struct Busy {
    address: SocketAddr,
    gate: Gate<Concurrency>,
    /// A permit for each request that may go on.
    work: Arc<Semaphore>,
    server: JoinHandle<std::io::Result<()>>,
    stop: oneshot::Sender<()>,
    first: Answer,
    waiting: [Answer; 2],
}

impl Busy {
    async fn new() -> Self {
        let (gate, work) = (slots(1, 5), Arc::new(Semaphore::new(0)));
        let permits = Arc::clone(&work);
        let handler = async move || {
            permits.acquire().await.unwrap().forget();
            "done"
        };
        let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
        let router = Router::new().route("/", get(handler)).layer(layer);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
            let _told = stopped.await;
        });
        let server = tokio::spawn(async move { serving.await });
        let client = http1();
        let send = || tokio::spawn(client.get(format!("http://{address}/")).send());
        let first = send();
        eventually("one works", || gate.snapshot().in_use() == 1).await;
        let waiting = [send(), send()];
        eventually("two wait", || gate.snapshot().waiters() == 2).await;
        Self {
            address,
            gate,
            work,
            server,
            stop,
            first,
            waiting,
        }
    }
}

async fn status(answer: Answer) -> u16 {
    soon(answer).await.unwrap().unwrap().status().as_u16()
}

#[tokio::test]
async fn with_the_limiter_closed_who_waits_is_told_at_once() {
    let busy = Busy::new().await;
    busy.stop.send(()).unwrap();
    busy.gate.close();
    for waiting in busy.waiting {
        assert_eq!(status(waiting).await, 503);
    }
    assert!(!busy.server.is_finished(), "one is still worked on");
    busy.work.add_permits(1);
    assert_eq!(status(busy.first).await, 200);
    soon(busy.server).await.unwrap().unwrap();
    assert!(is_idle(&busy.gate));
}

#[tokio::test]
async fn with_the_limiter_open_who_waits_is_served() {
    let busy = Busy::new().await;
    busy.stop.send(()).unwrap();
    busy.work.add_permits(3);
    assert_eq!(status(busy.first).await, 200);
    for waiting in busy.waiting {
        assert_eq!(status(waiting).await, 200);
    }
    soon(busy.server).await.unwrap().unwrap();
    assert!(is_idle(&busy.gate));
    let late = http1().get(format!("http://{}/", busy.address)).send();
    assert!(soon(late).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_nobody_behind() {
    let busy = Busy::new().await;
    busy.server.abort();
    busy.first.abort();
    for waiting in &busy.waiting {
        waiting.abort();
    }
    eventually("all is given back", || is_idle(&busy.gate)).await;
}
