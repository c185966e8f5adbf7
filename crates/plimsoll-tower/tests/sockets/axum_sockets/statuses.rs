//! Whose fault a refusal is.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use plimsoll::{Concurrency, Gate, Keyed, Queue, TokenBucket};
use plimsoll_tower::keys::{Address, Forwarded, HeaderKey, MatchedRoute, Peer, TrustedProxies};
use plimsoll_tower::{HttpLimitLayer, Limits, RequestLimit, per_address};
use tokio::net::TcpListener;

use super::clients::http1;
use super::serve;
use crate::eventually::soon;

async fn hello() -> &'static str {
    "hello"
}

/// The status of a request to this layer, and the header `retry-after`.
async fn status<L: Limits + Clone>(layer: HttpLimitLayer<L>) -> u16 {
    let address = serve(Router::new().route("/", get(hello)).layer(layer)).await;
    let request = http1().get(format!("http://{address}/"));
    let response = soon(request.header("x-account", "red").send()).await;
    response.unwrap().status().as_u16()
}

/// A caller over its own limit was told that the server is full: 503, which clients and proxies take for an outage.
#[tokio::test]
async fn a_caller_over_its_own_concurrency_limit_is_told_429() {
    let me = Peer::new().address([127, 0, 0, 1].into());
    let slots: Keyed<Address, _> = Keyed::new(Concurrency::new(1));
    let _busy = slots.try_acquire(&me, 1).unwrap();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(slots.clone(), Peer::new()));
    assert_eq!(status(layer).await, 429);
}

#[tokio::test]
async fn a_caller_over_its_own_queue_is_told_429() {
    let me = Peer::new().address([127, 0, 0, 1].into());
    for (queue, within) in [(1, 5), (0, 5000)] {
        let slots: Keyed<Address, _> = Keyed::builder(Concurrency::new(1))
            .queue(Queue::fifo(queue))
            .build();
        let _busy = slots.try_acquire(&me, 1).unwrap();
        let limit = RequestLimit::by_key(slots.clone(), Peer::new())
            .queue_timeout(Duration::from_millis(within));
        assert_eq!(status(HttpLimitLayer::new(limit)).await, 429);
    }
    let rate: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(1))
        .build();
    rate.try_acquire("red", 1).unwrap().forget();
    let account = HeaderKey::named("x-account").unwrap();
    let limit = RequestLimit::by_key(rate, account).queue_timeout(Duration::from_millis(5));
    assert_eq!(status(HttpLimitLayer::new(limit)).await, 429);
}

#[tokio::test]
async fn the_servers_own_limit_is_503() {
    let slots = Gate::new(Concurrency::new(1));
    let _busy = slots.try_acquire(1).unwrap();
    assert_eq!(
        status(HttpLimitLayer::new(RequestLimit::new(slots.clone()))).await,
        503
    );
    // A limit for each route is the server's as well, whoever asks.
    let routes: Keyed<String, _> = Keyed::new(Concurrency::new(1));
    let _busy = routes.try_acquire("/", 1).unwrap();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(routes.clone(), MatchedRoute));
    let address = serve(Router::new().route("/", get(hello)).route_layer(layer)).await;
    let response = soon(http1().get(format!("http://{address}/")).send()).await;
    assert_eq!(response.unwrap().status(), 503);
    // No room for another key is nothing a caller can do anything about.
    let full: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(1))
        .max_keys(1)
        .build();
    full.try_acquire("blue", 1).unwrap().forget();
    let account = HeaderKey::named("x-account").unwrap();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(full, account));
    assert_eq!(status(layer).await, 503);
}

/// A program that did not keep the addresses of its peers told its clients that their requests were wrong.
#[tokio::test]
async fn a_missing_peer_address_is_the_programs_fault() {
    let rate = || Keyed::<Address, _>::new(TokenBucket::per_second(5));
    let peer = HttpLimitLayer::new(RequestLimit::by_key(rate(), Peer::new()));
    let proxied = Forwarded::x_forwarded_for(TrustedProxies::loopback());
    let proxied = HttpLimitLayer::new(RequestLimit::by_key(rate(), proxied));
    let pair = (Peer::new(), HeaderKey::named("x-account").unwrap());
    let pairs = Keyed::<(Address, String), _>::new(TokenBucket::per_second(5));
    let pair = HttpLimitLayer::new(RequestLimit::by_key(pairs, pair));
    let routes = [
        Router::new()
            .route("/", get(hello))
            .layer(per_address(5, 5)),
        Router::new().route("/", get(hello)).layer(peer),
        Router::new().route("/", get(hello)).layer(proxied),
        Router::new().route("/", get(hello)).layer(pair),
    ];
    for router in routes {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        // The line that is forgotten: `into_make_service_with_connect_info`.
        tokio::spawn(async move { axum::serve(listener, router).await });
        let request = http1().get(format!("http://{address}/"));
        let response = soon(request.header("x-account", "red").send()).await;
        assert_eq!(response.unwrap().status(), 500);
    }
    // What the client left out is the client's fault still.
    let accounts: Keyed<String, _> = Keyed::new(TokenBucket::per_second(5));
    let absent = HeaderKey::named("x-absent").unwrap();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(accounts, absent));
    assert_eq!(status(layer).await, 400);
}
