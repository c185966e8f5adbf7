//! Limits in a tonic server and before a tonic client, over sockets of the loopback interface. The service is gRPC's
//! health service: one call with one answer, and one that watches for as long as the caller likes.

use std::net::SocketAddr;
use std::time::Duration;

use crate::eventually::{eventually, soon};
use crate::recorder::Recorder;
use plimsoll::{Clock, Concurrency, Gate, Keyed, ManualClock, Outcome, Queue, Reason, TokenBucket};
use plimsoll_tower::keys::{Address, HeaderKey, Peer};
use plimsoll_tower::{HttpLimitLayer, LimitError, LimitLayer, Limits, RequestLimit};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::HealthReporter;
use tonic_types::StatusExt;
use tower::Layer;

/// Serves health behind these limits until the test ends.
async fn serve<L: Limits + Clone>(layer: HttpLimitLayer<L>) -> (SocketAddr, HealthReporter) {
    let (reporter, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    (address, reporter)
}

async fn channel(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    soon(endpoint.connect()).await.unwrap()
}

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

/// Asks once.
async fn check(client: &mut HealthClient<Channel>) -> Result<(), Status> {
    soon(client.check(about(""))).await.map(drop)
}

#[tokio::test]
async fn a_quota_is_resource_exhausted_and_says_when_there_is_more() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(2);
    let keyed = Keyed::<Address, _>::builder(rule)
        .clock(time.clock())
        .name("peers")
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(keyed, Peer::new()));
    let (address, _reporter) = serve(layer).await;
    let mut client = HealthClient::new(channel(address).await);
    for _ in 0..2 {
        check(&mut client).await.unwrap();
    }
    let status = check(&mut client).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "peers: the limit is used up");
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(500)));
    let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert_eq!(pushback, "500");
    // Who comes back when told is let in.
    time.advance(Duration::from_millis(500));
    check(&mut client).await.unwrap();
}

#[tokio::test]
async fn what_can_never_be_granted_is_not_to_be_retried() {
    let limit = RequestLimit::new(Gate::new(TokenBucket::per_second(1))).cost(|_| 2);
    let (address, _reporter) = serve(HttpLimitLayer::new(limit)).await;
    let status = check(&mut HealthClient::new(channel(address).await))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(
        status.metadata().get("grpc-retry-pushback-ms").unwrap(),
        "-1"
    );
    assert!(status.get_details_retry_info().is_none());
}

#[tokio::test]
async fn want_of_room_is_unavailable() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .name("slots")
        .build();
    let (address, _reporter) =
        serve(HttpLimitLayer::new(RequestLimit::new(gate.clone()).shed())).await;
    let mut client = HealthClient::new(channel(address).await);
    let busy = gate.try_acquire(1).unwrap();
    let status = check(&mut client).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("slots: "), "{status}");
    drop(busy);
    check(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_limiter_that_is_closed_is_unavailable() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .build();
    let (address, _reporter) = serve(HttpLimitLayer::new(RequestLimit::new(gate.clone()))).await;
    let _busy = gate.try_acquire(1).unwrap();
    let mut client = HealthClient::new(channel(address).await);
    let waiting = tokio::spawn(async move { check(&mut client).await });
    eventually("it waits", || gate.snapshot().waiters() == 1).await;
    gate.close();
    assert_eq!(
        soon(waiting).await.unwrap().unwrap_err().code(),
        Code::Unavailable
    );
}

#[tokio::test]
async fn a_stream_holds_its_permit_until_it_ends() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .build();
    let (address, mut reporter) = serve(HttpLimitLayer::new(RequestLimit::new(gate.clone()))).await;
    reporter
        .set_service_status("ship", ServingStatus::Serving)
        .await;
    let mut client = HealthClient::new(channel(address).await);
    let mut watching = soon(client.watch(about("ship")))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(soon(watching.message()).await.unwrap().unwrap().status, 1);
    reporter
        .set_service_status("ship", ServingStatus::NotServing)
        .await;
    assert_eq!(soon(watching.message()).await.unwrap().unwrap().status, 2);
    assert_eq!(gate.snapshot().in_use(), 1);
    let mut other = client.clone();
    let waiting = tokio::spawn(async move { check(&mut other).await });
    eventually("it waits", || gate.snapshot().waiters() == 1).await;
    // Whose status is cleared is watched no longer.
    reporter.clear_service_status("ship").await;
    assert!(soon(watching.message()).await.unwrap().is_none());
    soon(waiting).await.unwrap().unwrap();
    eventually("all is given back", || gate.snapshot().in_use() == 0).await;
}

#[tokio::test]
async fn who_stops_watching_gives_its_permit_back() {
    let gate = Gate::new(Concurrency::new(1));
    let (address, _reporter) = serve(HttpLimitLayer::new(RequestLimit::new(gate.clone()))).await;
    let mut client = HealthClient::new(channel(address).await);
    let mut watching = soon(client.watch(about(""))).await.unwrap().into_inner();
    assert!(soon(watching.message()).await.unwrap().is_some());
    assert_eq!(
        check(&mut client).await.unwrap_err().code(),
        Code::Unavailable
    );
    drop(watching);
    eventually("the server notices", || gate.snapshot().in_use() == 0).await;
    check(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_limit_that_learns_reads_the_trailers() {
    let told = Recorder::default();
    let gate = told.gate(Clock::precise());
    let (address, reporter) = serve(HttpLimitLayer::new(RequestLimit::new(gate.clone()))).await;
    let mut client = HealthClient::new(channel(address).await);
    check(&mut client).await.unwrap();
    eventually("it is given back", || gate.snapshot().in_use() == 0).await;
    assert_eq!(told.told(), [Outcome::Success]);
    // The caller is to blame for that.
    let missing = soon(client.check(about("missing"))).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert_eq!(told.told(), [Outcome::Success]);
    // Who stops watching says nothing.
    reporter
        .set_service_status("ship", ServingStatus::Serving)
        .await;
    let watching = soon(client.watch(about("ship"))).await.unwrap();
    drop(watching);
    eventually("the server notices", || gate.snapshot().in_use() == 0).await;
    assert_eq!(told.told(), []);
}

/// A limit of HTTP before a channel answers as the server would, so clients need not know of it.
#[tokio::test]
async fn a_client_may_limit_itself_and_sees_a_status() {
    let everybody = Gate::new(Concurrency::new(99));
    let (address, _reporter) =
        serve(HttpLimitLayer::new(RequestLimit::new(everybody.clone()))).await;
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(2))
        .clock(time.clock())
        .name("outbound")
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let mut client = HealthClient::new(layer.layer(channel(address).await));
    for _ in 0..2 {
        soon(client.check(about(""))).await.unwrap();
    }
    let status = soon(client.check(about(""))).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "outbound: the limit is used up");
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(500)));
    assert_eq!(
        everybody.snapshot().granted_total(),
        2,
        "the server was not asked"
    );
}

#[tokio::test]
async fn a_stream_holds_the_permit_of_its_client_too() {
    let everybody = Gate::new(Concurrency::new(99));
    let (address, _reporter) = serve(HttpLimitLayer::new(RequestLimit::new(everybody))).await;
    let gate = Gate::new(Concurrency::new(1));
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let mut client = HealthClient::new(layer.layer(channel(address).await));
    let watching = soon(client.watch(about(""))).await.unwrap();
    assert_eq!(gate.snapshot().in_use(), 1);
    assert_eq!(
        soon(client.check(about(""))).await.unwrap_err().code(),
        Code::Unavailable
    );
    drop(watching);
    assert_eq!(gate.snapshot().in_use(), 0);
    soon(client.check(about(""))).await.unwrap();
}

/// A limit for any service before a channel: a refusal is an error of the transport, and its cause is the refusal.
#[tokio::test]
async fn a_client_may_wait_for_its_own_limit() {
    let everybody = Gate::new(Concurrency::new(99));
    let (address, _reporter) = serve(HttpLimitLayer::new(RequestLimit::new(everybody))).await;
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let channel = channel(address).await;
    let client = HealthClient::new(LimitLayer::new(gate.clone()).layer(channel));
    let busy = gate.try_acquire(1).unwrap();
    let mut first = client.clone();
    let waiting = tokio::spawn(async move { first.check(about("")).await.map(drop) });
    eventually("it waits", || gate.snapshot().waiters() == 1).await;
    let status = soon(client.clone().check(about(""))).await.unwrap_err();
    let cause = std::error::Error::source(&status).unwrap();
    let refused: &LimitError<tonic::transport::Error> = cause.downcast_ref().unwrap();
    assert_eq!(refused.denied().unwrap().reason(), Reason::QueueFull);
    drop(busy);
    soon(waiting).await.unwrap().unwrap();
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[tokio::test]
async fn each_tenant_has_its_limit_by_metadata() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(1);
    let keyed = Keyed::<String, _>::builder(rule)
        .clock(time.clock())
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(
        keyed,
        HeaderKey::named("x-tenant").unwrap(),
    ));
    let (address, _reporter) = serve(layer).await;
    let mut client = HealthClient::new(channel(address).await);
    let mut codes = Vec::new();
    for tenant in ["red", "red", "blue"] {
        let mut request = tonic::Request::new(about(""));
        request
            .metadata_mut()
            .insert("x-tenant", tenant.parse().unwrap());
        codes.push(
            soon(client.check(request))
                .await
                .map_or_else(|status| status.code(), |_| Code::Ok),
        );
    }
    assert_eq!(codes, [Code::Ok, Code::ResourceExhausted, Code::Ok]);
}

#[cfg(unix)]
#[tokio::test]
async fn users_of_a_unix_socket_have_limits_too() {
    let path = std::env::temp_dir().join(format!("plimsoll-tonic-{}", std::process::id()));
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let rate = Keyed::<Address, _>::builder(TokenBucket::per_second(2));
    let rate = rate.clock(ManualClock::new().clock()).build();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(rate, Peer::new()));
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
    tokio::spawn(server.serve_with_incoming(incoming));
    let endpoint = Endpoint::try_from(format!("unix://{}", path.display())).unwrap();
    let mut client = HealthClient::new(soon(endpoint.connect()).await.unwrap());
    assert!(check(&mut client).await.is_ok());
    assert!(check(&mut client).await.is_ok());
    let denied = check(&mut client).await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
    std::fs::remove_file(&path).unwrap();
}
