//! A real server for a test, on a port of its own. It ends with the test.

#![expect(unreachable_pub, reason = "shared by several tests")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

/// A running `redis-server`.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts one that keeps nothing on disk.
    pub fn start() -> Self {
        let port = free_port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        let file = format!("plimsoll-test-{port}.rdb");
        command.args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--dbfilename",
            &file,
            "--dir",
        ]);
        command.arg(std::env::temp_dir());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("redis-server cannot be started ({error}): install the package `redis-server`")
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect(address).is_err() {
            let ended = child.try_wait().expect("the state of the server");
            assert!(ended.is_none(), "redis-server ended: {ended:?}");
            thread::yield_now();
        }
        Self { child, port }
    }

    /// A store on it, as a file describes it, patient enough for a machine with much to do.
    pub fn store(&self) -> String {
        format!("url: 'redis://127.0.0.1:{}', deadline: 20s", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody has, and that nobody else here is given. Below those that the system gives to clients, one of which
/// would otherwise have it by the time the server starts.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        // Tests of other processes begin elsewhere.
        let offset = std::process::id().wrapping_mul(131).wrapping_add(next) % COUNT;
        let port = u16::try_from(FIRST + offset).expect("below the highest");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
