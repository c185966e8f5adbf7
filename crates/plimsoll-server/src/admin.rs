//! The parts of the server on the admin port: its fields, paths and metrics.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State as Extract;
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_admin::{Program, escaped, family};
use serde_json::{Map, Value};

use crate::envoy::{self, Envoy};
use crate::quota;
use crate::state::State;

/// The server as the [`Program`] of the admin port.
pub(crate) struct Served {
    pub(crate) state: Arc<State>,
    pub(crate) envoy: Arc<Envoy>,
}

impl Program for Served {
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("leases".to_owned(), self.state.leases.len().into());
        let connections = self.state.connections.taken();
        fields.insert("connections".to_owned(), connections.into());
        fields.insert("quotas".to_owned(), quota::page(&self.state.quotas));
        fields
    }

    fn paths(self: Arc<Self>) -> Router {
        let envoy = envoy::admin_router(&self.envoy);
        Router::new()
            .route("/quotas", get(quotas))
            .with_state(self)
            .merge(envoy)
    }

    fn metrics(&self, out: &mut String) {
        let Self { state, envoy } = self;
        let mut one = |name: &str, help: &str, value: usize| {
            family(out, name, "gauge", help);
            let _ = writeln!(out, "{name} {value}");
        };
        one(
            "plimsoll_leases",
            "Leases that clients hold.",
            state.leases.len(),
        );
        let connections = state.connections.taken();
        one(
            "plimsoll_connections",
            "Connections of clients.",
            connections,
        );
        quota::metrics(&state.quotas, out, escaped);
        if envoy.is_compat() {
            *out += &envoy.stats().prometheus();
        }
        if let Some(snapshots) = &state.snapshots {
            let (written, failed, last) = snapshots.counts();
            let name = "plimsoll_snapshots_total";
            family(out, name, "counter", "Snapshots of states, by result.");
            let _ = writeln!(out, "{name}{{result=\"written\"}} {written}");
            let _ = writeln!(out, "{name}{{result=\"failed\"}} {failed}");
            let name = "plimsoll_snapshot_timestamp_seconds";
            family(out, name, "gauge", "When the last one was written.");
            let _ = writeln!(out, "{name} {}", last.unwrap_or_default().as_secs_f64());
        }
    }
}

async fn quotas(Extract(served): Extract<Arc<Served>>) -> Json<Value> {
    Json(quota::page(&served.state.quotas))
}
