//! Run with: `cargo run -p plimsoll-tower --example axum_per_address --features axum`
//!
//! Five requests a second from each address, ten at once. Try it with `curl -i http://127.0.0.1:3000` in a loop: the
//! eleventh answer is a 429 that says when to come back.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use plimsoll_tower::{SendFields, per_address};
use tokio::net::TcpListener;

pub(crate) fn app() -> Router {
    // What is left is told with every answer, not only with refusals.
    let limit = per_address(5, 10).send_fields(SendFields::Always);
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limit)
}

pub(crate) async fn run(listener: TcpListener) -> io::Result<()> {
    // Without the address of the peer nobody would know whose limit counts.
    let service = app().into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}

#[tokio::main]
async fn main() -> io::Result<()> {
    run(TcpListener::bind("127.0.0.1:3000").await?).await
}
