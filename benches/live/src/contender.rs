//! Who limits: a layer in the process of the server, or Envoy before it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
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
    _processes: Vec<Child>,
    directory: Option<PathBuf>,
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
queue: { bound: 20, timeout: 500ms }";

impl Contender {
    /// `None` where it is not installed.
    pub(crate) async fn start(&self, scenario: &Scenario) -> io::Result<Option<Started>> {
        let envoy = std::env::var_os("PLIMSOLL_ENVOY");
        if self.layer == ENVOY && envoy.is_none() {
            return Ok(None);
        }
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
            _processes: vec![server],
            directory: None,
        };
        started.tell(scenario.usual).await?;
        if let (ENVOY, Some(program)) = (self.layer, envoy) {
            started.behind_envoy(Command::new(program)).await?;
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

    async fn behind_envoy(&mut self, mut program: Command) -> io::Result<()> {
        let free = TcpListener::bind("127.0.0.1:0").await?;
        let listen = free.local_addr()?;
        drop(free);
        let name = format!("plimsoll-live-{}-{}", std::process::id(), listen.port());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory)?;
        let file = directory.join("envoy.yaml");
        std::fs::write(&file, config(listen, self.address))?;
        let options = [
            "--log-level",
            "error",
            "--concurrency",
            "1",
            "--use-dynamic-base-id",
            "-c",
        ];
        let process = program.args(options).arg(&file).stdout(Stdio::null());
        self._processes.push(process.kill_on_drop(true).spawn()?);
        (self.address, self.directory) = (listen, Some(directory));
        for _ in 0..300 {
            if TcpStream::connect(listen).await.is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(io::Error::other("Envoy does not listen"))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// With the defaults of its documentation.
fn config(listen: SocketAddr, to: SocketAddr) -> String {
    let socket = |at: SocketAddr| {
        format!(
            "{{ socket_address: {{ address: {}, port_value: {} }} }}",
            at.ip(),
            at.port()
        )
    };
    format!(
        "static_resources:
  listeners:
  - address: {}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: live
          route_config: {{ virtual_hosts: [{{ name: all, domains: [\"*\"], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: app }} }}] }}] }}
          http_filters:
          - name: envoy.filters.http.adaptive_concurrency
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
              gradient_controller_config:
                sample_aggregate_percentile: {{ value: 90 }}
                concurrency_limit_params: {{ concurrency_update_interval: 0.1s }}
                min_rtt_calc_params: {{ jitter: {{ value: 10 }}, interval: 60s, request_count: 50 }}
          - name: envoy.filters.http.router
            typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: app
    type: STATIC
    circuit_breakers: {{ thresholds: [{{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }}] }}
    load_assignment: {{ cluster_name: app, endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {} }} }}] }}] }}
",
        socket(listen),
        socket(to),
    )
}
