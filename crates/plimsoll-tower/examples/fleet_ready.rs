//! Run with: `cargo run -p plimsoll-tower --example fleet_ready --features axum`
//!
//! A router that does not know where its limits are kept. Here they are in memory; a limiter that asks a store all servers
//! share has the same traits, and takes their place in `main` without a change to `app`.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use plimsoll::{Concurrency, Gate, Keyed, Limiter, PerKey, Queue, TokenBucket};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;

/// `rate` may be shared by a fleet. `slots` are this server's own, whatever the others do.
pub(crate) fn app(
    rate: impl PerKey<Address> + Clone + 'static,
    slots: impl Limiter + Clone + 'static,
) -> Router {
    let limits =
        HttpLimitLayer::new(RequestLimit::new(slots)).and(RequestLimit::by_key(rate, Peer::new()));
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limits)
}

pub(crate) async fn run(listener: TcpListener, app: Router) -> io::Result<()> {
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let rate = Keyed::<Address, _>::builder(TokenBucket::per_second(5).burst(10))
        .name("per-address")
        .build();
    let slots = Gate::builder(Concurrency::new(100))
        .queue(Queue::fifo(50))
        .name("slots")
        .build();
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    run(listener, app(rate, slots)).await
}
