//! Servers of tests, and a client for them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use reqwest::{Client, RequestBuilder};
use tokio::net::TcpListener;

/// Serves until the test ends.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("its address");
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    at
}

pub(crate) fn client() -> Client {
    Client::builder().no_proxy().build().expect("a client")
}

pub(crate) fn get(client: &Client, at: SocketAddr, path: &str) -> RequestBuilder {
    client.get(format!("http://{at}{path}"))
}

pub(crate) async fn status(request: RequestBuilder) -> u16 {
    request.send().await.expect("an answer").status().as_u16()
}

pub(crate) async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("its address").port()
}

/// A program that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    /// Nothing if the program is not installed here, unless the tests may not do without it.
    pub(crate) fn start(command: &mut Command) -> Option<Self> {
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match started {
            Ok(child) => Some(Self(child)),
            Err(error) if std::env::var_os("PLIMSOLL_REQUIRE_REDIS").is_some() => {
                panic!("{command:?} does not start: {error}")
            }
            Err(_) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED: {command:?} is not installed here"
                );
                None
            }
        }
    }

    /// Waits until it listens.
    pub(crate) async fn listens(&self, port: u16) {
        for _ in 0..1000 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nothing listens on port {port}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of its own, which is gone with it.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
