//! The recipes of `docs/fleets.md`, with real servers.

use std::fs;
use std::process::{Child, Command, Stdio};

use axum::Router;
use plimsoll_redis::Store;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[path = "../../examples/fleet.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod fleet;
use crate::server::{Server, free_port, is_installed, patient};

/// Serves until the test ends. Returns the port.
async fn serve(app: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    tokio::spawn(fleet::run(listener, app));
    port
}

/// The status of the answer, if there is one.
async fn ask(port: u16) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = b"GET / HTTP/1.1\r\nhost: fleet\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// How many of twenty requests, to these in turn, are let through.
async fn granted(ports: &[u16]) -> usize {
    let mut granted = 0;
    for port in ports.iter().cycle().take(20) {
        let status = ask(*port).await;
        assert!(matches!(status, Some(200 | 429)), "{status:?}");
        granted += usize::from(status == Some(200));
    }
    granted
}

#[tokio::test]
async fn one_server_has_the_whole_limit_and_two_have_it_twice() {
    let one = serve(fleet::app(fleet::alone())).await;
    assert_eq!(granted(&[one]).await, 10);
    let two = [
        serve(fleet::app(fleet::alone())).await,
        serve(fleet::app(fleet::alone())).await,
    ];
    assert_eq!(granted(&two).await, 20);
}

#[tokio::test]
async fn servers_that_share_a_store_share_the_limit() {
    let redis = Server::start();
    for borrowed in [false, true] {
        let namespace = format!("borrowed-{borrowed}");
        let mut ports = Vec::new();
        for _ in 0..2 {
            let store = patient(Store::builder(&redis.url())).namespace(&namespace);
            let limits = fleet::shared(&store.open().expect("a store"), borrowed);
            ports.push(serve(fleet::app(limits.expect("a limit"))).await);
        }
        let granted = granted(&ports).await;
        // Ten, and what comes in the ten seconds this may take on a busy machine. Who borrows may find the last ones with
        // the other.
        let least = if borrowed { 5 } else { 10 };
        assert!((least..=11).contains(&granted), "{granted}");
    }
}

/// An nginx that ends with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its workers end with it only if it is told, and not killed.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_client_that_always_comes_to_the_same_server_has_one_limit() {
    if !is_installed("nginx", "-v", "nginx-light") {
        return;
    }
    let nodes = [
        serve(fleet::app(fleet::alone())).await,
        serve(fleet::app(fleet::alone())).await,
    ];
    let port = free_port();
    let directory = std::env::temp_dir().join(format!("plimsoll-nginx-{port}"));
    fs::create_dir_all(&directory).expect("a directory");
    let config = include_str!("../../../../examples/fleet/nginx.conf")
        .replace("127.0.0.1:3000", &format!("127.0.0.1:{port}"))
        .replace("127.0.0.1:3001", &format!("127.0.0.1:{}", nodes[0]))
        .replace("127.0.0.1:3002", &format!("127.0.0.1:{}", nodes[1]));
    let file = directory.join("nginx.conf");
    fs::write(&file, config).expect("a file");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&directory).arg("-c").arg(&file);
    let child = command.stderr(Stdio::null()).spawn();
    let mut proxy = Proxy(child.unwrap_or_else(|error| {
        panic!("nginx cannot be started ({error}): install the package `nginx-light`")
    }));
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        let ended = proxy.0.try_wait().expect("its state");
        assert!(ended.is_none(), "nginx ended: {ended:?}");
        tokio::task::yield_now().await;
    }
    let granted = granted(&[port]).await;
    drop(proxy);
    fs::remove_dir_all(&directory).expect("it is ours");
    assert!((10..=11).contains(&granted), "{granted}");
}
