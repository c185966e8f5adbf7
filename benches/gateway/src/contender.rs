//! Who stands before the server: each a process of its own, with what its users would configure. All of them know that
//! at least as many requests as the server has workers are of use at once, and no more than twice as many; nginx is told its capacity besides.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use plimsoll_benches_sockets::{Proxy, envoy};
use tokio::process::Command;

use crate::{CAPACITY, WORKERS};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// What it needs, where it is not there.
    pub(crate) needs: &'static str,
    /// The program and its arguments but for the file; `None` where there is none.
    command: fn() -> Option<Command>,
    config: fn(&Place<'_>) -> String,
}

/// Where something is.
struct Place<'a> {
    listen: SocketAddr,
    to: SocketAddr,
    directory: &'a Path,
}

pub(crate) const CONTENDERS: [Contender; 3] = [
    Contender {
        name: "nginx",
        needs: "there is no nginx",
        command: || {
            let mut command = Command::new("nginx");
            command.arg("-c");
            Some(command)
        },
        config: nginx,
    },
    Contender {
        name: "Envoy",
        needs: "PLIMSOLL_ENVOY says where one is",
        command: envoy::command,
        config: |place| envoy::config(place.listen, place.to, &(WORKERS..=WORKERS * 2)),
    },
    Contender {
        name: "Plimsoll",
        needs: "GATEWAY says where the example `gateway` of plimsoll-gateway is",
        command: || Some(Command::new(std::env::var_os("GATEWAY")?)),
        config: plimsoll,
    },
];

impl Contender {
    /// `None` where it is not installed.
    pub(crate) async fn start(&self, to: SocketAddr) -> io::Result<Option<Proxy>> {
        let Some(command) = (self.command)() else {
            return Ok(None);
        };
        let config = |listen, directory: &Path| {
            (self.config)(&Place {
                listen,
                to,
                directory,
            })
        };
        Proxy::start(command, config).await
    }
}

/// By somebody who knows what the server can take, and which requests matter: these are half of it, and the others get most of the rest.
fn nginx(place: &Place<'_>) -> String {
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

/// It begins with the least that is of use, as Envoy does.
fn plimsoll(place: &Place<'_>) -> String {
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
