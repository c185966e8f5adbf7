//! Metrics in the text format of Prometheus. Labels are names from the file, so their number is bounded.

use std::fmt::Write;

use plimsoll_engine::{LimitView, Limits};

use crate::prometheus::{escaped, family};

/// The metrics of all limits and stores.
pub(crate) async fn metrics(all: &Limits) -> String {
    let mut out = String::new();
    #[cfg(feature = "redis")]
    let limits = all.snapshot_asking_stores().await;
    #[cfg(not(feature = "redis"))]
    let limits = all.snapshot();
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
    #[cfg(feature = "redis")]
    crate::store_metrics::write(&mut out, &all.stores());
    out
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
