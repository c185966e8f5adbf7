//! One limit for several processes: `redis_for_two 127.0.0.1:3001` and `redis_for_two 127.0.0.1:3002`.

use std::error::Error;
use std::net::SocketAddr;

use axum::{Router, routing::get};
use plimsoll::{Quota, TokenBucket};
use plimsoll_redis::{Outage, Store};
use plimsoll_tower::keys::Peer;
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;

pub(crate) fn app(redis: &str) -> Result<Router, Box<dyn Error>> {
    let store = Store::open(redis)?;
    let per_address = store
        .limiter("per-address", TokenBucket::greedy(Quota::per_minute(10)))?
        .fleet()
        // While Redis does not answer, each process grants half of the limit by itself.
        .outage(Outage::Local { share: 0.5 })
        .build()?;
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(HttpLimitLayer::new(RequestLimit::by_key(
            per_address,
            Peer::new(),
        ))))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listen = std::env::args().nth(1).ok_or("listen where?")?;
    let service = app("redis://127.0.0.1")?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(TcpListener::bind(listen).await?, service).await?;
    Ok(())
}
