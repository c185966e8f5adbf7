//! A proxy as a process of its own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// A process that listens, ended when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    directory: PathBuf,
    _process: Child,
}

impl Proxy {
    /// Runs `command` with one more argument: a file with what `config` returns for the address to listen on and for a
    /// directory of its own. `None` where there is no such program.
    pub async fn start(
        mut command: Command,
        config: impl FnOnce(SocketAddr, &Path) -> String,
    ) -> io::Result<Option<Self>> {
        let free = TcpListener::bind("127.0.0.1:0").await?;
        let address = free.local_addr()?;
        drop(free);
        let name = format!("plimsoll-proxy-{}-{}", std::process::id(), address.port());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory)?;
        let file = directory.join("config.yaml");
        std::fs::write(&file, config(address, &directory))?;
        let command = command.arg(file).stdout(Stdio::null()).kill_on_drop(true);
        let process = match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            spawned => spawned?,
        };
        let started = Self {
            address,
            directory,
            _process: process,
        };
        for _ in 0..300 {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(Some(started));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let program = command.as_std().get_program().display();
        Err(io::Error::other(format!("{program} does not listen")))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
