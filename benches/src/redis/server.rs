//! A real server, on a port of its own, and what it says about itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use redis::{Client, Connection, cmd};

/// A `redis-server` that keeps nothing on disk and ends with this.
pub(super) struct Server {
    child: Child,
    port: u16,
    observer: RefCell<Option<Connection>>,
}

/// What a server has done since it was last asked to forget.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// How often each command ran, those in scripts included.
    calls: HashMap<String, u64>,
    /// Processor time in seconds, since the server started.
    pub(super) seconds: f64,
}

/// What a client sends by itself; the others here only run inside of scripts.
const SENT: [&str; 5] = ["incr", "eval", "evalsha", "evalsha_ro", "script|load"];

impl Server {
    pub(super) fn start() -> io::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]);
        command.arg(std::env::temp_dir());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self {
            child: command.spawn()?,
            port,
            observer: RefCell::new(None),
        };
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("redis-server ended: {status}")));
            }
            thread::yield_now();
        }
        let client = Client::open(server.url()).map_err(io::Error::other)?;
        let observer = client.get_connection().map_err(io::Error::other)?;
        server.observer = RefCell::new(Some(observer));
        Ok(server)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Forgets what was counted.
    pub(super) fn reset(&self) -> Done {
        let _: String = self.ask(&["CONFIG", "RESETSTAT"]);
        self.done()
    }

    /// Forgets all keys.
    pub(super) fn clear(&self) {
        let _: String = self.ask(&["FLUSHALL"]);
    }

    pub(super) fn done(&self) -> Done {
        let info: String = self.ask(&["INFO", "cpu", "commandstats"]);
        let mut done = Done::default();
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            if let "used_cpu_user" | "used_cpu_sys" = name {
                done.seconds += value.trim().parse().unwrap_or(0.0);
            }
            let calls = value
                .strip_prefix("calls=")
                .and_then(|v| v.split(',').next());
            if let (Some(command), Some(calls)) = (name.strip_prefix("cmdstat_"), calls) {
                let calls = calls.parse().unwrap_or(0);
                done.calls.insert(command.to_owned(), calls);
            }
        }
        done
    }

    fn ask(&self, words: &[&str]) -> String {
        let mut observer = self.observer.borrow_mut();
        let connection = observer.as_mut().expect("connected since it was started");
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query(connection).expect("the server answers")
    }
}

impl Done {
    /// How many commands clients have sent.
    pub(super) fn sent(&self) -> u64 {
        SENT.iter().filter_map(|name| self.calls.get(*name)).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
