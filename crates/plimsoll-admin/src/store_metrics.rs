//! Metrics of stores. Labels are names of stores in the file, causes and histogram buckets, all of them bounded.

use std::fmt::Write;

use plimsoll_engine::{StoreErrorKind, StoreStats};

use crate::prometheus::{escaped, family};

type Count = fn(&StoreStats) -> u64;

const COUNTS: [(&str, &str, &str, Count); 7] = [
    (
        "plimsoll_store_decisions_total",
        "counter",
        "Demands that the store decided.",
        |it| it.decisions,
    ),
    (
        "plimsoll_store_round_trips_total",
        "counter",
        "Calls to the store. One may decide many demands.",
        |it| it.round_trips,
    ),
    (
        "plimsoll_store_leases_lost_total",
        "counter",
        "Leases that could not be renewed in time, or that the store has forgotten.",
        |it| it.leases_lost,
    ),
    (
        "plimsoll_store_circuit_opened_total",
        "counter",
        "How often the circuit opened.",
        |it| it.outages,
    ),
    (
        "plimsoll_store_circuit_open",
        "gauge",
        "1 while the store is left alone.",
        |it| u64::from(!it.is_asked),
    ),
    (
        "plimsoll_store_connections_total",
        "counter",
        "Connections that were made.",
        |it| it.connections,
    ),
    (
        "plimsoll_store_clock_steps_total",
        "counter",
        "Times at which something was found that was written by a clock far ahead.",
        |it| it.clock_steps,
    ),
];

pub(crate) fn write(out: &mut String, stores: &[(String, StoreStats)]) {
    if stores.is_empty() {
        return;
    }
    for (name, kind, help, count) in COUNTS {
        family(out, name, kind, help);
        for (store, stats) in stores {
            let _ = writeln!(
                out,
                "{name}{{store=\"{}\"}} {}",
                escaped(store),
                count(stats)
            );
        }
    }
    let name = "plimsoll_store_failures_total";
    family(
        out,
        name,
        "counter",
        "Calls that the store did not decide, by cause.",
    );
    for (store, stats) in stores {
        for kind in StoreErrorKind::ALL {
            let (store, cause) = (escaped(store), kind.as_str());
            let count = stats.failures(kind);
            let _ = writeln!(out, "{name}{{store=\"{store}\",cause=\"{cause}\"}} {count}");
        }
    }
    let name = "plimsoll_store_latency_seconds";
    family(out, name, "histogram", "How long calls to the store took.");
    for (store, stats) in stores {
        let (store, latency) = (escaped(store), &stats.latency);
        for (most, count) in latency.buckets() {
            let most = most.as_secs_f64();
            let _ = writeln!(
                out,
                "{name}_bucket{{store=\"{store}\",le=\"{most}\"}} {count}"
            );
        }
        let (count, sum) = (latency.count(), latency.sum().as_secs_f64());
        let _ = writeln!(
            out,
            "{name}_bucket{{store=\"{store}\",le=\"+Inf\"}} {count}"
        );
        let _ = writeln!(out, "{name}_sum{{store=\"{store}\"}} {sum}");
        let _ = writeln!(out, "{name}_count{{store=\"{store}\"}} {count}");
    }
}
