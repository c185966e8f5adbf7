//! Clients.

use std::net::{IpAddr, SocketAddr};

use axum::body::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// A client that speaks HTTP/1.1, from this address of the loopback interface.
pub(crate) fn http1_from(address: impl Into<IpAddr>) -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy().http1_only();
    builder.local_address(address.into()).build().unwrap()
}

/// A client that speaks HTTP/1.1.
pub(crate) fn http1() -> reqwest::Client {
    http1_from([127, 0, 0, 1])
}

/// One connection that speaks HTTP/2.
pub(crate) struct Http2(SendRequest<Empty<Bytes>>);

impl Http2 {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Sends a request; the future waits for the head of the response. Dropping it hangs up.
    pub(crate) fn get(
        &mut self,
        address: SocketAddr,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + Send + use<> {
        let request = Request::get(format!("http://{address}/")).body(Empty::new());
        self.0.send_request(request.unwrap())
    }
}
