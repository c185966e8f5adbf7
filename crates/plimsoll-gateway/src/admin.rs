//! What the admin port shows of a gateway, beside limits.

use std::fmt::Write;
use std::sync::Arc;

use arc_swap::ArcSwap;
use plimsoll_admin::{Program, escaped, family};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::counts::Counts;
use crate::pool::ServerView;
use crate::table::Table;

/// A gateway, as operators see it.
pub(crate) struct Served {
    pub(crate) counts: Arc<Counts>,
    pub(crate) table: Arc<ArcSwap<Table>>,
}

impl Program for Served {
    fn fields(&self) -> Map<String, Value> {
        let servers = self.table.load().servers(Instant::now());
        let upstream = |it: ServerView| {
            let state = match it.left_alone.as_millis() {
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
        let mut say = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        say("connections", self.counts.connections().into());
        say("in_flight", self.counts.in_flight().into());
        say("requests", self.counts.requests().into());
        let faults = self.counts.faults().filter(|(_, count)| *count > 0);
        let faults = faults.map(|(word, count)| (word.to_owned(), count.into()));
        say("faults", Value::Object(faults.collect()));
        say("upstreams", servers.into_iter().map(upstream).collect());
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
            |it| u64::from(!it.left_alone.is_zero()),
        );
    }
}
