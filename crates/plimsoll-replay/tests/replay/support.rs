//! Files for tests, and replays of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_config::{Config, Format};
use plimsoll_replay::{Logs, Replay, Report};

/// A directory of its own for each test.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new(test: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-replay-{test}-{}-{count}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        Self(dir)
    }

    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file for the test");
        path
    }

    /// The only log of a test.
    pub(crate) fn log(&self, text: impl AsRef<[u8]>) -> Logs {
        Logs::of([self.file("access.log", text)])
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn config(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn replay(limits: &str, logs: Logs) -> Report {
    Replay::new(config(limits), logs)
        .run()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A line of the combined format, so many milliseconds after noon, that took so long.
pub(crate) fn line(client: &str, end_ms: u64, path: &str, status: u16, took_ms: u64) -> String {
    let (second, milli) = (end_ms / 1000, end_ms % 1000);
    format!(
        "{{\"ts\":{}.{milli:03},\"request\":{{\"client_ip\":\"{client}\",\"method\":\"GET\",\"uri\":\"{path}\",\"headers\":{{}}}},\"duration\":{}.{:03},\"size\":10,\"status\":{status}}}\n",
        1_794_744_000 + second,
        took_ms / 1000,
        took_ms % 1000
    )
}
