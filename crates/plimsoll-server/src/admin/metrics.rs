//! Metrics in the text format of Prometheus. Labels come from the file only, so there are as many as it has limits.

use std::fmt::Write;

use axum::extract::State as Extract;
use axum::response::Response;
use plimsoll_engine::LimitView;

use super::{Admin, text};
use crate::quota;

pub(crate) async fn metrics(Extract(admin): Extract<Admin>) -> Response {
    let mut out = String::new();
    #[cfg(feature = "redis")]
    let limits = admin.state.limits.snapshot_asking_stores().await;
    #[cfg(not(feature = "redis"))]
    let limits = admin.state.limits.snapshot();
    each(
        &mut out,
        "plimsoll_limit",
        "gauge",
        "The most that is granted at once.",
        &limits,
        |it| it.snapshot.limit(),
    );
    each(
        &mut out,
        "plimsoll_in_use",
        "gauge",
        "What was granted and is not yet returned or refilled.",
        &limits,
        |it| it.snapshot.in_use(),
    );
    each(
        &mut out,
        "plimsoll_waiting",
        "gauge",
        "Demands that wait.",
        &limits,
        |it| it.snapshot.waiters(),
    );
    each(
        &mut out,
        "plimsoll_granted_total",
        "counter",
        "Demands that were granted.",
        &limits,
        |it| it.snapshot.granted_total(),
    );
    each(
        &mut out,
        "plimsoll_denied_total",
        "counter",
        "Demands that were refused.",
        &limits,
        |it| it.snapshot.denied_total(),
    );
    each(
        &mut out,
        "plimsoll_would_refuse_total",
        "counter",
        "Decisions that a limit in shadow mode would have refused.",
        &limits,
        |it| it.would_refuse,
    );
    each(
        &mut out,
        "plimsoll_beyond",
        "gauge",
        "What is in flight beyond a limit in shadow mode.",
        &limits,
        |it| it.beyond,
    );
    family(
        &mut out,
        "plimsoll_saturation_ratio",
        "gauge",
        "What is in use of a limit that all share: 0 idle, 1 full. Limits by key have none.",
    );
    for view in limits.iter().filter(|it| !it.is_keyed) {
        let (name, ratio) = (escaped(&view.name), view.snapshot.saturation());
        let _ = writeln!(out, "plimsoll_saturation_ratio{{limit=\"{name}\"}} {ratio}");
    }
    family(
        &mut out,
        "plimsoll_refused_total",
        "counter",
        "Decisions that were refused because of this limit, by reason.",
    );
    for view in &limits {
        for (reason, count) in &view.refused {
            let name = escaped(&view.name);
            let _ = writeln!(
                out,
                "plimsoll_refused_total{{limit=\"{name}\",reason=\"{}\"}} {count}",
                reason.as_str()
            );
        }
    }
    family(
        &mut out,
        "plimsoll_leases",
        "gauge",
        "Leases that clients hold.",
    );
    let _ = writeln!(out, "plimsoll_leases {}", admin.state.leases.len());
    family(
        &mut out,
        "plimsoll_connections",
        "gauge",
        "Connections of clients.",
    );
    let _ = writeln!(
        out,
        "plimsoll_connections {}",
        admin.state.connections.taken()
    );
    quota::metrics(&admin.state.quotas, &mut out, escaped);
    if admin.envoy.is_compat() {
        out += &admin.envoy.stats().prometheus();
    }
    if let Some(snapshots) = &admin.state.snapshots {
        let (written, failed, last) = snapshots.counts();
        let name = "plimsoll_snapshots_total";
        family(&mut out, name, "counter", "Snapshots of states, by result.");
        let _ = writeln!(out, "{name}{{result=\"written\"}} {written}");
        let _ = writeln!(out, "{name}{{result=\"failed\"}} {failed}");
        let name = "plimsoll_snapshot_timestamp_seconds";
        family(&mut out, name, "gauge", "When the last one was written.");
        let _ = writeln!(out, "{name} {}", last.unwrap_or_default().as_secs_f64());
    }
    #[cfg(feature = "redis")]
    super::store_metrics::write(&mut out, &admin.state.limits.stores());
    text("text/plain; version=0.0.4; charset=utf-8", out)
}

fn each(
    out: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    limits: &[LimitView],
    value: impl Fn(&LimitView) -> u64,
) {
    family(out, name, kind, help);
    for view in limits {
        let _ = writeln!(
            out,
            "{name}{{limit=\"{}\"}} {}",
            escaped(&view.name),
            value(view)
        );
    }
}

pub(super) fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub(super) fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
