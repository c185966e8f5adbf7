//! Who is at the other end, whatever accepts connections.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper::client::conn::http1::handshake;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use plimsoll::{Address, Concurrency, Gate, Keyed};
use plimsoll_tokio::LimitedListener;
use plimsoll_tokio::listener;
use plimsoll_tower::keys::{Forwarded, PeerAddr, TrustedProxies, UnixPeer};
use plimsoll_tower::per_address;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tower_layer::Layer;

use super::clients::http1_from;
use crate::eventually::soon;

fn app() -> Router {
    let router = Router::new().route("/", get(async || "hello"));
    router.layer(per_address(1, 2))
}

/// What three requests of one address and one of another are told.
async fn statuses(address: SocketAddr) -> [u16; 4] {
    let url = format!("http://{address}/");
    let mut statuses = [0; 4];
    for (status, last) in statuses.iter_mut().zip([1, 1, 1, 2]) {
        let client = http1_from([127, 0, 0, last]);
        let response = soon(client.get(&url).send()).await.unwrap();
        *status = response.status().as_u16();
    }
    statuses
}

const EXPECTED: [u16; 4] = [200, 200, 429, 200];

async fn limited() -> (SocketAddr, LimitedListener) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let total = Gate::new(Concurrency::new(100));
    (address, LimitedListener::new(listener).total(total))
}

/// A limit by address did not know the address that a limited listener tells, and refused every request.
#[tokio::test]
async fn a_limited_listener_tells_limits_by_address_who_it_is() {
    let (address, listener) = limited().await;
    let service = app().into_make_service_with_connect_info::<listener::Peer>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    assert_eq!(statuses(address).await, EXPECTED);

    let (address, listener) = limited().await;
    let service = app().into_make_service_with_connect_info::<PeerAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    assert_eq!(statuses(address).await, EXPECTED);

    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app().into_make_service_with_connect_info::<PeerAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    assert_eq!(statuses(address).await, EXPECTED);
}

#[tokio::test]
async fn a_loop_that_accepts_for_hyper_tells_who_it_is() {
    let (address, mut listener) = limited().await;
    let app = app();
    tokio::spawn(async move {
        while let Ok((connection, peer)) = listener.accept().await {
            let service = TowerToHyperService::new(PeerAddr(peer).layer(app.clone()));
            let connection = TokioIo::new(connection);
            tokio::spawn(http1::Builder::new().serve_connection(connection, service));
        }
    });
    assert_eq!(statuses(address).await, EXPECTED);
}

/// Asks through this socket, once for each of these clients behind it.
async fn through(path: &std::path::Path, clients: &[&str]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for client in clients {
        let stream = TokioIo::new(UnixStream::connect(path).await.unwrap());
        let (mut sender, connection) = handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::get("/")
            .header("host", "x")
            .header("cf-connecting-ip", *client)
            .body(Empty::<Bytes>::new());
        let response = soon(sender.send_request(request.unwrap())).await.unwrap();
        statuses.push(response.status().as_u16());
        connection.abort();
    }
    statuses
}

/// Whoever came through a Unix socket had no key, and was refused.
#[tokio::test]
async fn users_of_a_unix_socket_have_limits_too() {
    let directory = std::env::temp_dir().join(format!("plimsoll-peers-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("by-user");
    let listener = UnixListener::bind(&path).unwrap();
    let service = app().into_make_service_with_connect_info::<UnixPeer>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    assert_eq!(through(&path, &["192.0.2.1"; 3]).await, [200, 200, 429]);

    // The same with limits on connections.
    let path = directory.join("limited");
    let per_user: Keyed<Address, _> = Keyed::new(Concurrency::new(5));
    let listener = LimitedListener::new(UnixListener::bind(&path).unwrap()).per_address(per_user);
    let service = app().into_make_service_with_connect_info::<UnixPeer>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    assert_eq!(through(&path, &["192.0.2.1"; 3]).await, [200, 200, 429]);

    // A proxy is at the other end.
    let path = directory.join("proxy");
    let listener = UnixListener::bind(&path).unwrap();
    let name = "cf-connecting-ip".parse().unwrap();
    let client = Forwarded::single_header(TrustedProxies::unix_sockets(), name);
    let router = Router::new().route("/", get(async || "hello"));
    let router = router.layer(per_address(1, 2).behind(client));
    let service = router.into_make_service_with_connect_info::<UnixPeer>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    let clients = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"];
    assert_eq!(through(&path, &clients).await, EXPECTED);
    std::fs::remove_dir_all(&directory).unwrap();
}
