//! Connections that are upgraded.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::Empty;
use hyper::client::conn::http2::handshake;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use plimsoll::{Concurrency, Gate};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::TcpStream;
use tower_layer::Layer;
use tower_service::Service;

use super::{is_idle, serve, slots};
use crate::eventually::{eventually, soon};

/// Sends back what it is sent, until the client has had enough.
async fn echo(mut request: Request) -> Response {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let connection = TokioIo::new(upgrade.await.unwrap());
        let (mut reader, mut writer) = split(connection);
        let _ = copy(&mut reader, &mut writer).await;
        let _ = writer.shutdown().await;
    });
    let mut response = Response::new(Body::empty());
    if request.method() != Method::CONNECT {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, "upgrade".parse().unwrap());
        headers.insert(header::UPGRADE, "echo".parse().unwrap());
    }
    response
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";

/// Reads the head of a response.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(stream.read_u8()).await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn upgrade(address: SocketAddr) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(UPGRADE).await.unwrap();
    (head(&mut stream).await, stream)
}

/// The slot of an upgraded connection was free with the head of its response, so that a limit of 1 let in as many
/// websockets as came.
#[tokio::test]
async fn an_upgraded_connection_holds_its_slot_until_it_ends() {
    let gate = slots(1, 0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let address = serve(Router::new().route("/", any(echo)).layer(layer)).await;
    for text in [&b"ping"[..], b"pong"] {
        let (response, mut stream) = upgrade(address).await;
        assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
        let (refusal, _) = upgrade(address).await;
        assert!(refusal.starts_with("HTTP/1.1 503 "), "{refusal}");
        stream.write_all(text).await.unwrap();
        let mut echoed = [0; 4];
        soon(stream.read_exact(&mut echoed)).await.unwrap();
        assert_eq!(echoed, text);
        assert_eq!(gate.snapshot().in_use(), 1);
        drop(stream);
        eventually("the slot is free", || is_idle(&gate)).await;
    }
}

#[tokio::test]
async fn an_extended_connect_holds_its_slot_until_it_ends() {
    let gate = slots(1, 0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let address = serve(Router::new().route("/", any(echo)).layer(layer)).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let connect = || {
        let mut request = http::Request::new(Empty::new());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = format!("http://{address}/").parse().unwrap();
        let protocol = Protocol::from_static("websocket");
        request.extensions_mut().insert(protocol);
        request
    };
    // The server says that it knows the protocol before it takes requests for it.
    let mut tries = 0;
    let response = loop {
        match soon(sender.send_request(connect())).await {
            Ok(response) => break response,
            Err(error) => assert!(tries < 1000, "{error}"),
        }
        tries += 1;
        tokio::task::yield_now().await;
    };
    assert_eq!(response.status(), 200);
    let mut upgraded = TokioIo::new(soon(hyper::upgrade::on(response)).await.unwrap());
    upgraded.write_all(b"ping").await.unwrap();
    let mut echoed = [0; 4];
    soon(upgraded.read_exact(&mut echoed)).await.unwrap();
    assert_eq!(&echoed, b"ping");
    assert_eq!(gate.snapshot().in_use(), 1);
    assert_eq!(
        soon(sender.send_request(connect())).await.unwrap().status(),
        503
    );
    drop(upgraded);
    eventually("the slot is free", || is_idle(&gate)).await;
}

#[tokio::test]
async fn an_upgrade_that_the_handler_does_not_want_holds_nothing_longer_than_its_answer() {
    let gate = slots(1, 0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let handler = async |_: Request| StatusCode::IM_A_TEAPOT;
    let address = serve(Router::new().route("/", any(handler)).layer(layer)).await;
    for _ in 0..3 {
        let (response, _stream) = upgrade(address).await;
        assert!(response.starts_with("HTTP/1.1 418 "), "{response}");
        eventually("the slot is free", || is_idle(&gate)).await;
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_during_the_upgrade_frees_its_slot() {
    let gate = slots(1, 0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let address = serve(Router::new().route("/", any(echo)).layer(layer)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(UPGRADE).await.unwrap();
    drop(stream);
    eventually("it came", || gate.snapshot().granted_total() == 1).await;
    eventually("the slot is free", || is_idle(&gate)).await;
}

#[tokio::test]
async fn every_layer_holds_its_slot_until_the_connection_ends() {
    let (outer, inner) = (slots(2, 0), slots(2, 0));
    let layer = |gate: &Gate<Concurrency>| HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let router = Router::new().route("/", any(echo));
    let address = serve(router.layer(layer(&inner)).layer(layer(&outer))).await;
    let (_, mut stream) = upgrade(address).await;
    stream.write_all(b"ping").await.unwrap();
    let mut echoed = [0; 4];
    soon(stream.read_exact(&mut echoed)).await.unwrap();
    for gate in [&outer, &inner] {
        assert_eq!(gate.snapshot().in_use(), 1);
    }
    drop(stream);
    for gate in [&outer, &inner] {
        eventually("the slot is free", || is_idle(gate)).await;
    }
}

/// Whoever waits for an upgrade learns that there is none.
#[tokio::test]
async fn an_upgrade_that_fails_fails_behind_a_layer_too() {
    let gate = slots(1, 0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let (failed, mut fails) = tokio::sync::mpsc::unbounded_channel();
    let handler = async move |mut request: Request| {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move { failed.send(upgrade.await.is_err()) });
        std::future::pending::<StatusCode>().await
    };
    let address = serve(Router::new().route("/", any(handler)).layer(layer)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(UPGRADE).await.unwrap();
    eventually("it is called", || gate.snapshot().in_use() == 1).await;
    drop(stream);
    assert_eq!(soon(fails.recv()).await, Some(true));
    assert!(is_idle(&gate));
}

/// A client's slot is held as well while the connection lasts that came of its request.
#[tokio::test]
async fn a_client_holds_its_slot_until_the_upgraded_connection_ends() {
    let address = serve(Router::new().route("/", any(echo))).await;
    let gate = slots(1, 0);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let connector = hyper_util::client::legacy::connect::HttpConnector::new();
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
    let client = client.build::<_, Empty<Bytes>>(connector);
    let mut client = layer.layer(client);
    let request = http::Request::get(format!("http://{address}/"))
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(Empty::new());
    let response = soon(client.call(request.unwrap())).await.unwrap();
    assert_eq!(response.status(), 101);
    let mut upgraded = TokioIo::new(soon(hyper::upgrade::on(response)).await.unwrap());
    upgraded.write_all(b"ping").await.unwrap();
    let mut echoed = [0; 4];
    soon(upgraded.read_exact(&mut echoed)).await.unwrap();
    assert_eq!((&echoed, gate.snapshot().in_use()), (b"ping", 1));
    drop(upgraded);
    assert!(is_idle(&gate));
}
