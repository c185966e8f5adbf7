//! Who stands before the server: each a process of its own, with what its users would configure. All of them know that
//! at least as many requests as the server has workers are of use at once, and no more than twice as many; nginx is told its capacity besides.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::{CAPACITY, WORKERS};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// What it needs, where it is not there.
    pub(crate) needs: &'static str,
    file: &'static str,
    config: fn(&Place) -> String,
    /// The program and its arguments; `None` where there is none.
    command: fn(&Place) -> Option<Command>,
}

/// Where something is.
pub(crate) struct Place {
    listen: SocketAddr,
    to: SocketAddr,
    directory: PathBuf,
    file: PathBuf,
}

/// A process that listens, ended when it is dropped.
pub(crate) struct Started {
    pub(crate) address: SocketAddr,
    directory: PathBuf,
    _process: Child,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) const CONTENDERS: [Contender; 3] = [
    Contender {
        name: "nginx",
        needs: "there is no nginx",
        file: "nginx.conf",
        config: nginx,
        command: |place| {
            let mut command = Command::new("nginx");
            command.arg("-c").arg(&place.file);
            Some(command)
        },
    },
    Contender {
        name: "Envoy",
        needs: "PLIMSOLL_ENVOY says where one is",
        file: "envoy.yaml",
        config: envoy,
        command: |place| {
            let mut command = Command::new(std::env::var_os("PLIMSOLL_ENVOY")?);
            let arguments = ["--log-level", "error", "--concurrency", "1", "-c"];
            command.args(arguments).arg(&place.file);
            command.arg("--use-dynamic-base-id");
            Some(command)
        },
    },
    Contender {
        name: "Plimsoll",
        needs: "GATEWAY says where the example `gateway` of plimsoll-gateway is",
        file: "plimsoll.yaml",
        config: plimsoll,
        command: |place| {
            let mut command = Command::new(std::env::var_os("GATEWAY")?);
            command.arg(&place.file);
            Some(command)
        },
    },
];

impl Contender {
    /// `None` where it is not installed.
    pub(crate) async fn start(&self, to: SocketAddr) -> io::Result<Option<Started>> {
        let free = TcpListener::bind("127.0.0.1:0").await?;
        let listen = free.local_addr()?;
        drop(free);
        let name = format!("plimsoll-overload-{}-{}", std::process::id(), listen.port());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory)?;
        let file = directory.join(self.file);
        let place = Place {
            listen,
            to,
            directory: directory.clone(),
            file,
        };
        std::fs::write(&place.file, (self.config)(&place))?;
        let Some(mut command) = (self.command)(&place) else {
            return Ok(None);
        };
        let spawned = command.stdout(Stdio::null()).kill_on_drop(true).spawn();
        let process = match spawned {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            spawned => spawned?,
        };
        let started = Started {
            address: listen,
            directory,
            _process: process,
        };
        for _ in 0..300 {
            if TcpStream::connect(listen).await.is_ok() {
                return Ok(Some(started));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(io::Error::other(format!("{} does not listen", self.name)))
    }
}

/// By somebody who knows what the server can take, and which requests matter: these are half of it, and the others get most of the rest.
fn nginx(place: &Place) -> String {
    let (listen, to, dir) = (place.listen, place.to, place.directory.display());
    format!(
        "worker_processes 1; daemon off; master_process off; pid {dir}/pid; error_log {dir}/log crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000000; limit_req_log_level info; limit_conn_log_level info;
  client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
  map $http_x_priority $unimportant {{ critical \"\"; default all; }}
  limit_req_zone $server_name zone=all:1m rate={CAPACITY}r/s;
  limit_req_zone $unimportant zone=unimportant:1m rate={}r/s;
  limit_conn_zone $server_name zone=slots:1m;
  upstream app {{ server {to}; keepalive 512; keepalive_requests 1000000000; }}
  server {{ listen {listen} backlog=4096; server_name all; location / {{
    limit_req zone=all burst={WORKERS} nodelay; limit_req zone=unimportant burst={WORKERS} nodelay; limit_conn slots {};
    proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}
}}
",
        CAPACITY * 2 / 5,
        WORKERS * 2
    )
}

fn envoy(place: &Place) -> String {
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
          stat_prefix: overload
          route_config: {{ virtual_hosts: [{{ name: all, domains: [\"*\"], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: app }} }}] }}] }}
          http_filters:
          - name: envoy.filters.http.adaptive_concurrency
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
              gradient_controller_config:
                sample_aggregate_percentile: {{ value: 90 }}
                concurrency_limit_params: {{ max_concurrency_limit: {most}, concurrency_update_interval: 0.1s }}
                min_rtt_calc_params: {{ jitter: {{ value: 10 }}, interval: 60s, request_count: 50, min_concurrency: {WORKERS} }}
          - name: envoy.filters.http.router
            typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: app
    type: STATIC
    circuit_breakers: {{ thresholds: [{{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }}] }}
    load_assignment: {{ cluster_name: app, endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {} }} }}] }}] }}
",
        socket(place.listen),
        socket(place.to),
        most = WORKERS * 2,
    )
}

/// It begins with the least that is of use, as Envoy does.
fn plimsoll(place: &Place) -> String {
    format!(
        "gateway: {{ listen: \"{}\", workers: 1, upstreams: {{ app: {{ to: \"http://{}\" }} }} }}
limits:
  in_flight: {{ concurrency: adaptive, min: {WORKERS}, initial: {WORKERS}, max: {}, queue: {{ bound: 100, timeout: 100ms }}, priority: header:x-priority }}
routes: [{{ match: /**, limits: [in_flight] }}]
",
        place.listen,
        place.to,
        WORKERS * 2
    )
}
