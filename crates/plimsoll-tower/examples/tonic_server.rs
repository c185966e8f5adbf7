//! Run with: `cargo run -p plimsoll-tower --example tonic_server --features tonic`
//!
//! A gRPC server, here tonic's health service, that limits each address. Who is refused gets the status
//! `RESOURCE_EXHAUSTED`, and when to try again in `grpc-retry-pushback-ms` and in `RetryInfo`:
//!
//! ```text
//! grpcurl -plaintext 127.0.0.1:3000 grpc.health.v1.Health/Check
//! ```

use plimsoll::{Keyed, Quota, TokenBucket};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Error, Server};

pub(crate) async fn run(listener: TcpListener, each_address: Quota) -> Result<(), Error> {
    let keyed = Keyed::<Address, _>::builder(TokenBucket::greedy(each_address))
        .name("per-address")
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(keyed, Peer::new()));

    let (_reporter, health) = tonic_health::server::health_reporter();
    Server::builder()
        .layer(layer)
        .add_service(health)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    run(listener, Quota::per_minute(10)).await?;
    Ok(())
}
