//! Run with: `cargo run -p plimsoll-tower --example nested_limits --features axum`
//!
//! Limits inside of limits: one for each address on everything, a smaller one on the route that is dear, and few at once
//! there. They are asked from the outside in. Nothing is done between them, so the outer one refunds what the inner ones
//! refuse.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use plimsoll::{Concurrency, Gate, Keyed, Quota, TokenBucket};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;

/// A limit for each address.
fn each_address(quota: Quota, name: &str) -> Keyed<Address, TokenBucket> {
    Keyed::<Address, _>::builder(TokenBucket::greedy(quota))
        .name(name)
        .build()
}

pub(crate) fn app() -> Router {
    let everything = each_address(Quota::per_hour(5), "everything");
    let reports = each_address(Quota::per_hour(2), "reports");
    let at_once = Gate::builder(Concurrency::new(3)).name("at-once").build();

    let dear = HttpLimitLayer::new(RequestLimit::by_key(reports, Peer::new()))
        .and(RequestLimit::new(at_once));
    Router::new()
        .route("/report", get(|| async { "a report\n" }).layer(dear))
        .route("/", get(|| async { "hello\n" }))
        .layer(HttpLimitLayer::new(
            RequestLimit::by_key(everything, Peer::new()).refund_refused(),
        ))
}

pub(crate) async fn run(listener: TcpListener) -> io::Result<()> {
    let service = app().into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}

#[tokio::main]
async fn main() -> io::Result<()> {
    run(TcpListener::bind("127.0.0.1:3000").await?).await
}
