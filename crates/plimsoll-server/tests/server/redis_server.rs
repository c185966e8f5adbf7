//! A Redis for a test.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A Redis of its own, ended when it is dropped.
pub(crate) struct Redis {
    child: Child,
    pub(crate) port: u16,
}

impl Redis {
    /// `None` where there is none: then the test says so and passes.
    pub(crate) fn start() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        Self::start_at(port)
    }

    pub(crate) fn start_at(port: u16) -> Option<Self> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]);
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            assert!(
                std::env::var_os("PLIMSOLL_REQUIRE_REDIS").is_none(),
                "redis-server is not installed"
            );
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: redis-server is not installed (Debian package redis-server)"
            );
            return None;
        };
        let redis = Self { child, port };
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        // Each attempt is answered at once.
        assert!(
            (0..1_000_000).any(|_| listens()),
            "redis-server does not listen"
        );
        Some(redis)
    }

    /// Empties it, scripts included.
    pub(crate) async fn forget(&self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))
            .await
            .expect("it listens");
        let asked = stream.write_all(b"FLUSHALL\r\nSCRIPT FLUSH\r\n").await;
        asked.expect("it reads");
        let mut said = [0; 10];
        stream.read_exact(&mut said).await.expect("it answers");
        assert_eq!(&said, b"+OK\r\n+OK\r\n");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
