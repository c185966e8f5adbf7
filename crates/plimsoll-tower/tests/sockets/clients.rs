//! Limits before clients: what may be asked of others, and how much at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::eventually::{eventually, soon};
use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, Outcome, Queue, Reason, TokenBucket};
use plimsoll_tower::keys::by;
use plimsoll_tower::{HttpLimitLayer, LimitError, LimitLayer, RequestLimit};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::{Layer, Service, ServiceExt};

/// A server that answers when there is a permit for it.
async fn server(permits: usize) -> (SocketAddr, Arc<Semaphore>) {
    let work = Arc::new(Semaphore::new(permits));
    let permits = Arc::clone(&work);
    let handler = async move || {
        permits.acquire().await.unwrap().forget();
        "done"
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(handler));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, work)
}

fn reqwest() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn to(address: SocketAddr) -> reqwest::Request {
    let url = format!("http://{address}/").parse().unwrap();
    reqwest::Request::new(reqwest::Method::GET, url)
}

/// Which server a request goes to.
fn host(request: &reqwest::Request) -> String {
    let url = request.url();
    format!(
        "{}:{}",
        url.host_str().unwrap_or_default(),
        url.port().unwrap_or_default()
    )
}

#[tokio::test]
async fn reqwest_keeps_to_a_quota_for_each_host() {
    let ((one, _), (other, _)) = (server(99).await, server(99).await);
    let time = ManualClock::new();
    let keyed = Keyed::<String, _>::builder(TokenBucket::per_second(2))
        .clock(time.clock())
        .name("outbound")
        .build();
    let client = LimitLayer::by_key(keyed.clone(), host).layer(reqwest());
    let send = async |address| soon(client.clone().oneshot(to(address))).await;
    for address in [one, other, one, other] {
        assert_eq!(send(address).await.unwrap().status(), 200);
    }
    for address in [one, other] {
        let error = send(address).await.unwrap_err();
        let denied = error.denied().unwrap();
        assert_eq!(denied.limiter(), Some("outbound"));
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    }
    time.advance(Duration::from_millis(500));
    assert_eq!(send(one).await.unwrap().status(), 200);
    assert_eq!(keyed.len(), 2);
}

#[tokio::test]
async fn requests_of_reqwest_wait_for_their_host_and_not_for_others() {
    let ((one, one_works), (other, _)) = (server(0).await, server(99).await);
    let keyed = Keyed::<String, _>::builder(Concurrency::new(1))
        .queue(Queue::fifo(2))
        .build();
    let client = LimitLayer::by_key(keyed.clone(), host).layer(reqwest());
    let send = |address| tokio::spawn(client.clone().oneshot(to(address)));
    let slow: Vec<_> = (0..3).map(|_| send(one)).collect();
    eventually("two wait", || keyed.snapshot().waiters() == 2).await;
    assert_eq!(soon(send(other)).await.unwrap().unwrap().status(), 200);
    let error = soon(send(one)).await.unwrap().unwrap_err();
    assert_eq!(error.denied().unwrap().reason(), Reason::QueueFull);
    one_works.add_permits(3);
    for request in slow {
        assert_eq!(soon(request).await.unwrap().unwrap().status(), 200);
    }
    let seen = keyed.snapshot();
    assert_eq!((seen.in_use(), seen.waiters()), (0, 0));
}

#[tokio::test]
async fn who_gives_up_leaves_the_queue_of_its_client() {
    let (address, works) = server(0).await;
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(9))
        .build();
    let mut client = LimitLayer::new(gate.clone()).layer(reqwest());
    let first = tokio::spawn(client.ready().await.unwrap().call(to(address)));
    eventually("one works", || gate.snapshot().in_use() == 1).await;
    let mut second = client.clone();
    let second = tokio::spawn(async move { second.ready().await?.call(to(address)).await });
    let third = tokio::spawn(client.call(to(address)));
    eventually("two wait", || gate.snapshot().waiters() == 2).await;
    second.abort();
    eventually("one waits", || gate.snapshot().waiters() == 1).await;
    first.abort();
    works.add_permits(2);
    assert_eq!(soon(third).await.unwrap().unwrap().status(), 200);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[tokio::test]
async fn an_error_of_the_client_is_passed_on() {
    // A port that nobody listens at any more.
    let address = TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let gate = Gate::new(Concurrency::new(1));
    let mut client = LimitLayer::new(gate.clone())
        .classify(
            |result: Result<&reqwest::Response, &reqwest::Error>| match result {
                Err(error) if error.is_connect() => Outcome::Overload,
                _ => Outcome::Success,
            },
        )
        .layer(reqwest());
    let error = soon(client.ready().await.unwrap().call(to(address)))
        .await
        .unwrap_err();
    assert!(matches!(error, LimitError::Service(error) if error.is_connect()));
    assert_eq!(gate.snapshot().in_use(), 0);
}

fn hyper() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

fn get_from(address: SocketAddr) -> Request<Empty<Bytes>> {
    Request::get(format!("http://{address}/"))
        .body(Empty::new())
        .unwrap()
}

#[tokio::test]
async fn hypers_client_waits_in_a_queue() {
    let (address, works) = server(0).await;
    let gate = Gate::builder(Concurrency::new(2))
        .queue(Queue::fifo(3))
        .build();
    let client = LimitLayer::new(gate.clone()).layer(hyper());
    let send = || tokio::spawn(client.clone().oneshot(get_from(address)));
    let requests: Vec<_> = (0..5).map(|_| send()).collect();
    eventually("three wait", || gate.snapshot().waiters() == 3).await;
    let refused = soon(send()).await.unwrap().unwrap_err();
    assert_eq!(refused.denied().unwrap().reason(), Reason::QueueFull);
    works.add_permits(5);
    for request in requests {
        let response = soon(request).await.unwrap().unwrap();
        assert_eq!(
            soon(response.into_body().collect())
                .await
                .unwrap()
                .to_bytes(),
            "done"
        );
    }
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[tokio::test]
async fn hypers_client_keeps_to_a_quota_for_each_host() {
    let ((one, _), (other, _)) = (server(99).await, server(99).await);
    let time = ManualClock::new();
    let keyed = Keyed::<String, _>::builder(TokenBucket::per_second(1))
        .clock(time.clock())
        .queue(Queue::fifo(1))
        .build();
    let host = |request: &Request<Empty<Bytes>>| request.uri().authority().unwrap().to_string();
    let client = LimitLayer::by_key(keyed.clone(), host).layer(hyper());
    let send = |address| tokio::spawn(client.clone().oneshot(get_from(address)));
    assert!(soon(send(one)).await.unwrap().is_ok());
    let waiting = send(one);
    eventually("it waits", || keyed.snapshot().waiters() == 1).await;
    assert!(soon(send(other)).await.unwrap().is_ok());
    time.advance(Duration::from_secs(1));
    assert!(soon(waiting).await.unwrap().is_ok());
}

/// A limit of HTTP before hyper's client holds its permit while the response is read, and refusals are responses.
#[tokio::test]
async fn a_limit_of_http_holds_until_the_response_is_read() {
    let (address, _works) = server(99).await;
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let keyed = Keyed::<String, _>::new(Concurrency::new(9));
    let host = by(|head| Some(head.uri().authority()?.to_string()));
    let mut client = HttpLimitLayer::new(RequestLimit::by_key(keyed.clone(), host))
        .and(RequestLimit::new(gate.clone()))
        .layer(hyper());
    let response = soon(client.ready().await.unwrap().call(get_from(address)))
        .await
        .unwrap();
    assert_eq!((gate.snapshot().in_use(), keyed.len()), (1, 1));
    let waiting = tokio::spawn(client.ready().await.unwrap().call(get_from(address)));
    eventually("it waits", || gate.snapshot().waiters() == 1).await;
    let refused = soon(client.ready().await.unwrap().call(get_from(address)))
        .await
        .unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(
        soon(response.into_body().collect())
            .await
            .unwrap()
            .to_bytes(),
        "done"
    );
    let second = soon(waiting).await.unwrap().unwrap();
    assert_eq!(gate.snapshot().in_use(), 1);
    drop(second);
    assert_eq!(
        (gate.snapshot().in_use(), keyed.snapshot().in_use()),
        (0, 0)
    );
}
