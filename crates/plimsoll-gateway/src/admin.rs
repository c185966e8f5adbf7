//! The fields and metrics of a gateway on its admin port, beside those of its limits.

use std::fmt::Write;
use std::sync::Arc;

use arc_swap::ArcSwap;
use plimsoll_admin::{Program, escaped, family};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::counts::GatewayCounts;
use crate::pool::ServerView;
use crate::table::Table;

/// A gateway, as the program behind the admin port.
pub(crate) struct GatewayProgram {
    pub(crate) counts: Arc<GatewayCounts>,
    pub(crate) table: Arc<ArcSwap<Table>>,
}

impl Program for GatewayProgram {
    fn fields(&self) -> Map<String, Value> {
        let servers = self.table.load().servers(Instant::now());
        let upstream = |it: ServerView| {
            let state = match it.ejected_for.as_millis() {
                0 => "healthy".to_owned(),
                left => format!("left alone for {} s", left.div_ceil(1000)),
            };
            json!({
                "pool": it.pool,
                "address": it.server,
                "in_flight": it.in_flight,
                "answered": it.answered,
                "failed": it.failed,
                "state": state,
            })
        };
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        add("connections", self.counts.connections().into());
        add("in_flight", self.counts.in_flight().into());
        add("requests", self.counts.requests().into());
        let faults = self.counts.faults().filter(|(_, count)| *count > 0);
        let faults = faults.map(|(word, count)| (word.to_owned(), count.into()));
        add("faults", Value::Object(faults.collect()));
        add("upstreams", servers.into_iter().map(upstream).collect());
        fields
    }

    fn metrics(&self, out: &mut String) {
        *out += &self.counts.to_prometheus();
        let servers = self.table.load().servers(Instant::now());
        let mut each = |name: &str, kind: &str, help: &str, of: fn(&ServerView) -> u64| {
            let name = format!("plimsoll_gateway_server_{name}");
            family(out, &name, kind, help);
            for server in &servers {
                let labels = (escaped(&server.pool), escaped(&server.server));
                let (pool, at) = labels;
                let value = of(server);
                let _ = writeln!(out, "{name}{{pool=\"{pool}\",server=\"{at}\"}} {value}");
            }
        };
        each(
            "in_flight",
            "gauge",
            "Requests and upgraded connections that a server is busy with.",
            |it| it.in_flight,
        );
        each(
            "answered_total",
            "counter",
            "Answers of a server, other than 5xx.",
            |it| it.answered,
        );
        each(
            "failed_total",
            "counter",
            "Requests that a server did not answer, answered with 5xx, or whose answer broke off.",
            |it| it.failed,
        );
        each(
            "left_alone",
            "gauge",
            "1 while a server is left alone because it failed.",
            |it| u64::from(!it.ejected_for.is_zero()),
        );
    }
}
