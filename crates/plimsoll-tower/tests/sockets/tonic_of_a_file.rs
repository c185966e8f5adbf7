//! The layer of a file in a tonic server, over sockets: gRPC's health service, with one call that has one answer and one that
//! streams.

use std::net::SocketAddr;
use std::time::Duration;

use crate::eventually::{eventually, soon};
use plimsoll::ManualClock;
use plimsoll_config::{Config, Format};
use plimsoll_engine::Limits;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::HealthReporter;
use tonic_types::StatusExt;

const FILE: &str = "
answer: { status: 503, body: not for gRPC }
limits:
  calls: { kind: token_bucket, burst: 2, refill: 2, every: 1s, key: 'metadata:x-user' }
  slots: { kind: concurrency, limit: 1 }
  large: { kind: token_bucket, burst: 1, refill: 1, every: 1s, cost: 2 }
routes:
  - { match: /grpc.health.v1.Health/Check, headers: { x-user: large }, limits: [large] }
  - { match: /grpc.health.v1.Health/Check, limits: [calls] }
  - { match: /grpc.health.v1.Health/Watch, limits: [slots] }
";

/// Serves health behind these limits until the test ends.
async fn serve(limits: &Limits) -> (HealthClient<Channel>, HealthReporter) {
    let (reporter, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let server = Server::builder().layer(limits.layer()).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Channel::from_shared(format!("http://{address}")).expect("an address");
    let channel = soon(channel.connect()).await.expect("it listens");
    (HealthClient::new(channel), reporter)
}

fn limits() -> (Limits, ManualClock) {
    let config = Config::from_str("limits.yaml", FILE, Format::Yaml).expect("it is right");
    let time = ManualClock::new();
    let limits = Limits::new(&config, &time.clock()).expect("it can be built");
    (limits, time)
}

fn about(service: &str, user: Option<&'static str>) -> Request<HealthCheckRequest> {
    let service = service.to_owned();
    let mut request = Request::new(HealthCheckRequest { service });
    if let Some(user) = user {
        request
            .metadata_mut()
            .insert("x-user", user.parse().expect("a value"));
    }
    request
}

async fn check(
    client: &mut HealthClient<Channel>,
    user: Option<&'static str>,
) -> Result<(), Status> {
    soon(client.check(about("", user))).await.map(drop)
}

#[tokio::test]
async fn a_call_is_refused_with_a_status_of_grpc() {
    let (limits, time) = limits();
    let (mut client, _reporter) = serve(&limits).await;
    for _ in 0..2 {
        check(&mut client, Some("anna"))
            .await
            .expect("it is granted");
    }
    let status = check(&mut client, Some("anna"))
        .await
        .expect_err("2 are used");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "calls: the limit is used up");
    let retry = status.get_details_retry_info().expect("it says when");
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(500)));
    let pushback = status.metadata().get("grpc-retry-pushback-ms");
    assert_eq!(pushback.expect("it says when"), "500");
    // Somebody else, and who comes back when told.
    check(&mut client, Some("bert"))
        .await
        .expect("it is granted");
    time.advance(Duration::from_millis(500));
    check(&mut client, Some("anna"))
        .await
        .expect("it is granted");
    let status = check(&mut client, None).await.expect_err("no key");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let status = check(&mut client, Some("large")).await.expect_err("never");
    assert_eq!(status.code(), Code::ResourceExhausted);
    let pushback = status.metadata().get("grpc-retry-pushback-ms");
    assert_eq!(pushback.expect("it says never"), "-1");
}

#[tokio::test]
async fn a_stream_holds_its_slot_until_it_ends() {
    let (limits, _time) = limits();
    let (mut client, mut reporter) = serve(&limits).await;
    reporter
        .set_service_status("ship", ServingStatus::Serving)
        .await;
    let watching = soon(client.watch(about("ship", None))).await;
    let mut watching = watching.expect("it is granted").into_inner();
    let message = soon(watching.message()).await.expect("a message");
    assert_eq!(message.expect("the first").status, 1);
    let in_use = || limits.snapshot()[1].snapshot.in_use();
    assert_eq!(in_use(), 1);
    let status = soon(client.watch(about("ship", None))).await;
    let status = status.expect_err("one at a time");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().starts_with("slots: "), "{status}");
    // Whose status is cleared is watched no longer.
    reporter.clear_service_status("ship").await;
    assert!(soon(watching.message()).await.expect("an end").is_none());
    drop(watching);
    eventually("the slot is given back", || in_use() == 0).await;
    let again = soon(client.watch(about("", None))).await;
    drop(again.expect("the slot is free"));
}
