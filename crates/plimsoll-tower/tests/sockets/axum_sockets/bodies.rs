//! Bodies that take their time.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use http::Response;
use http_body_util::BodyExt;
use plimsoll::{Clock, Outcome};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};

use super::clients::{Http2, http1};
use super::{Written, is_idle, serve};
use crate::eventually::{eventually, soon};
use crate::recorder::Recorder;

#[tokio::test]
async fn a_slow_body_holds_its_permit_over_http1() {
    let server = Written::new(1, 0).await;
    let (client, body) = (http1(), server.body());
    let mut slow = soon(client.get(server.url()).send()).await.unwrap();
    for line in ["one", "two", "three"] {
        body.send(line).unwrap();
        assert_eq!(soon(slow.chunk()).await.unwrap().unwrap(), line);
        assert_eq!(server.gate.snapshot().in_use(), 1);
        let refused = soon(client.get(server.url()).send()).await.unwrap();
        assert_eq!(refused.status(), 503);
    }
    drop(body);
    assert_eq!(soon(slow.chunk()).await.unwrap(), None);
    eventually("the permit is given back", || is_idle(&server.gate)).await;
    drop(server.body());
    assert_eq!(
        soon(client.get(server.url()).send())
            .await
            .unwrap()
            .status(),
        200
    );
}

#[tokio::test]
async fn a_slow_body_holds_its_permit_over_http2() {
    let server = Written::new(1, 0).await;
    let mut client = Http2::connect(server.address).await;
    let body = server.body();
    let mut slow = soon(client.get(server.address)).await.unwrap();
    for line in ["one", "two", "three"] {
        body.send(line).unwrap();
        let frame = soon(slow.body_mut().frame()).await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap(), line);
        let refused = soon(client.get(server.address)).await.unwrap();
        assert_eq!(refused.status(), 503);
        assert_eq!(server.gate.snapshot().in_use(), 1);
    }
    drop(body);
    let rest = soon(slow.into_body().collect()).await.unwrap();
    assert_eq!(rest.to_bytes(), "");
    eventually("the permit is given back", || is_idle(&server.gate)).await;
}

#[tokio::test]
async fn who_waits_gets_the_permit_of_a_body_that_has_ended() {
    let server = Written::new(1, 1).await;
    let (client, first, second) = (http1(), server.body(), server.body());
    let slow = soon(client.get(server.url()).send()).await.unwrap();
    let waiting = tokio::spawn(client.get(server.url()).send());
    eventually("it waits", || server.gate.snapshot().waiters() == 1).await;
    drop(first);
    assert_eq!(soon(slow.bytes()).await.unwrap(), "");
    drop(second);
    assert_eq!(soon(waiting).await.unwrap().unwrap().status(), 200);
    eventually("all is done", || is_idle(&server.gate)).await;
}

/// A body as those of files are: it does not know its end, but its length is announced.
fn file() -> Response<Body> {
    let parts = ["one ", "two ", "three"].map(|part| Ok::<_, std::io::Error>(Bytes::from(part)));
    let body = Body::from_stream(stream::iter(parts));
    Response::builder()
        .header("content-length", "13")
        .body(body)
        .unwrap()
}

/// hyper drops such a body when its length is sent, without asking whether it has ended. It once was taken for a caller
/// that hung up, so that a limit before a server of files learned nothing.
#[tokio::test]
async fn a_limit_that_learns_learns_from_every_kind_of_body() {
    let told = Recorder::default();
    let gate = told.gate(Clock::precise());
    let router = Router::new()
        .route("/empty", get(async || ()))
        .route("/full", get(async || "full"))
        .route("/file", get(async || file()))
        .route(
            "/stream",
            get(async || Body::from_stream(stream::iter([Ok::<_, std::io::Error>("part")]))),
        )
        .layer(HttpLimitLayer::new(RequestLimit::new(gate.clone())));
    let address = serve(router).await;
    let http1 = http1();
    let http2 = reqwest::Client::builder()
        .no_proxy()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    for client in [http1, http2] {
        for path in ["/empty", "/full", "/file", "/stream"] {
            let response = soon(client.get(format!("http://{address}{path}")).send())
                .await
                .unwrap();
            soon(response.bytes()).await.unwrap();
            eventually("it is given back", || gate.snapshot().in_use() == 0).await;
            assert_eq!(told.told(), [Outcome::Success], "{path}");
        }
    }
}
