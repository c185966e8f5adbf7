//! Envoy with `adaptive_concurrency`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tokio::process::Command;

/// Without the file; `None` where `PLIMSOLL_ENVOY` does not say where Envoy is.
pub fn command() -> Option<Command> {
    let mut command = Command::new(std::env::var_os("PLIMSOLL_ENVOY")?);
    command.args(["--log-level", "error", "--concurrency", "1"]);
    command.args(["--use-dynamic-base-id", "-c"]);
    Some(command)
}

/// With the defaults of its documentation, but for the `bounds` of its limit.
pub fn config(listen: SocketAddr, to: SocketAddr, bounds: &RangeInclusive<usize>) -> String {
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
          stat_prefix: app
          route_config: {{ virtual_hosts: [{{ name: all, domains: [\"*\"], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: app }} }}] }}] }}
          http_filters:
          - name: envoy.filters.http.adaptive_concurrency
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
              gradient_controller_config:
                sample_aggregate_percentile: {{ value: 90 }}
                concurrency_limit_params: {{ max_concurrency_limit: {}, concurrency_update_interval: 0.1s }}
                min_rtt_calc_params: {{ jitter: {{ value: 10 }}, interval: 60s, request_count: 50, min_concurrency: {} }}
          - name: envoy.filters.http.router
            typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: app
    type: STATIC
    circuit_breakers: {{ thresholds: [{{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }}] }}
    load_assignment: {{ cluster_name: app, endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {} }} }}] }}] }}
",
        socket(listen),
        bounds.end(),
        bounds.start(),
        socket(to),
    )
}
