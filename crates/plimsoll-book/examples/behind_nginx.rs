//! Five requests a second for each client, in bursts of up to ten, behind a proxy on this machine.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use plimsoll::{Keyed, TokenBucket};
use plimsoll_tower::keys::{Address, Forwarded, TrustedProxies};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;

pub(crate) fn app() -> Router {
    let per_client = Keyed::<Address, _>::builder(TokenBucket::per_second(5).burst(10))
        .name("per-client")
        .build();
    // Only what a trusted proxy has written counts. Others than those of this machine are named, all of them:
    // `TrustedProxies::parse(["127.0.0.0/8", "::1", "10.0.0.0/8"])`.
    let client = Forwarded::x_forwarded_for(TrustedProxies::loopback());
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(HttpLimitLayer::new(RequestLimit::by_key(
            per_client, client,
        )))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    // The address of the peer says whether it is the proxy.
    let service = app().into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}
