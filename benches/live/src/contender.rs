//! Who limits: a layer in the process of the server, or Envoy before it.

use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use plimsoll_benches_sockets::{Proxy, envoy};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::sleep;

use crate::scenario::{Pool, Scenario};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// What it needs, where it is not there.
    pub(crate) needs: &'static str,
    /// What the server is told.
    layer: &'static str,
    /// The lines of a simulation with the same limit.
    pub(crate) simulated: Option<&'static str>,
}

/// Processes that are ended when this is dropped.
pub(crate) struct Started {
    pub(crate) address: SocketAddr,
    input: ChildStdin,
    _server: Child,
    _envoy: Option<Proxy>,
}

pub(crate) const CONTENDERS: [Contender; 6] = [
    Contender {
        name: "load_shedding()",
        needs: "",
        layer: "load_shedding",
        simulated: Some(LOAD_SHEDDING),
    },
    Contender {
        name: "Verdict",
        needs: "",
        layer: "verdict",
        simulated: Some("limit: verdict"),
    },
    Contender {
        name: "tower-resilience, Vegas",
        needs: "",
        layer: "tower-resilience",
        simulated: None,
    },
    Contender {
        name: "tower-acc, Vegas",
        needs: "",
        layer: "tower-acc",
        simulated: None,
    },
    Contender {
        name: "Envoy, adaptive_concurrency",
        needs: "PLIMSOLL_ENVOY says where one is",
        layer: ENVOY,
        simulated: None,
    },
    Contender {
        name: "none",
        needs: "",
        layer: "none",
        simulated: Some("limit: none"),
    },
];

const ENVOY: &str = "envoy";
/// What the layer has unless it is told otherwise.
const LOAD_SHEDDING: &str = "limit: { algorithm: verdict, min: 5, initial: 5, max: 500 }
queue: { bound: 20, timeout: 250ms }";

impl Contender {
    /// `None` where it is not installed.
    pub(crate) async fn start(&self, scenario: &Scenario) -> io::Result<Option<Started>> {
        let mut server = Command::new(std::env::current_exe()?)
            .args(["serve", self.layer])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
            return Err(io::Error::other("a server without input and output"));
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        let mut started = Started {
            address,
            input,
            _server: server,
            _envoy: None,
        };
        started.tell(scenario.usual).await?;
        if self.layer == ENVOY {
            let Some(command) = envoy::command() else {
                return Ok(None);
            };
            // The bounds that it has without any.
            let config = |listen, _: &_| envoy::config(listen, address, &(3..=1000));
            let Some(envoy) = Proxy::start(command, config).await? else {
                return Ok(None);
            };
            started.address = envoy.address;
            started._envoy = Some(envoy);
        }
        Ok(Some(started))
    }
}

impl Started {
    async fn tell(&mut self, pool: Pool) -> io::Result<()> {
        let line = format!("{} {}\n", pool.workers, pool.millis);
        self.input.write_all(line.as_bytes()).await?;
        self.input.flush().await
    }

    /// Changes the pool for the middle third.
    pub(crate) async fn change(&mut self, scenario: &Scenario, third: Duration) -> io::Result<()> {
        sleep(third).await;
        self.tell(scenario.middle).await?;
        sleep(third).await;
        self.tell(scenario.usual).await
    }
}
