//! The counters of a gateway.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::fault::Fault;

/// The counters of a gateway since its start. [`Gateway::counts`](crate::Gateway::counts) returns them.
///
/// ```
/// let counts = plimsoll_gateway::GatewayCounts::default();
/// assert_eq!((counts.requests(), counts.fault("bad_host")), (0, 0));
/// assert!(counts.to_prometheus().contains("plimsoll_gateway_requests_total 0"));
/// ```
#[derive(Debug, Default)]
pub struct GatewayCounts {
    pub(crate) requests: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) ejections: AtomicU64,
    pub(crate) aborted: AtomicU64,
    faults: [AtomicU64; Fault::ALL.len()],
    pub(crate) in_flight: AtomicI64,
    pub(crate) connections: AtomicI64,
    pub(crate) tunnels: AtomicI64,
}

impl GatewayCounts {
    /// The number of requests that were forwarded to a pool.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The number of retries.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// The number of ejections: a server failed several times, and got no requests for a while.
    #[must_use]
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// The number of responses that broke off after their head had been forwarded.
    #[must_use]
    pub fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Relaxed)
    }

    /// The number of requests and upgraded connections in flight at servers.
    #[must_use]
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The number of open client connections.
    #[must_use]
    pub fn connections(&self) -> i64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The number of open upgraded connections.
    #[must_use]
    pub fn tunnels(&self) -> i64 {
        self.tunnels.load(Ordering::Relaxed)
    }

    /// The number of responses for each fault, by the name of the fault. The README lists the names.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |fault: Fault| {
            (
                fault.word(),
                self.faults[fault as usize].load(Ordering::Relaxed),
            )
        };
        Fault::ALL.into_iter().map(count)
    }

    /// The number of responses for the fault of this name. 0 if there is no such fault.
    #[must_use]
    pub fn fault(&self, name: &str) -> u64 {
        self.faults()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, count)| count)
    }

    pub(crate) fn note(&self, fault: Fault) {
        self.faults[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All counters in the text format of Prometheus.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        let mut add = |name: &str, kind: &str, help: &str, value: i128| {
            let _ = writeln!(
                text,
                "# HELP plimsoll_gateway_{name} {help}\n# TYPE plimsoll_gateway_{name} {kind}\nplimsoll_gateway_{name} {value}"
            );
        };
        add(
            "requests_total",
            "counter",
            "Requests passed on to a pool.",
            self.requests().into(),
        );
        add(
            "retries_total",
            "counter",
            "Requests sent again to a server.",
            self.retries().into(),
        );
        add(
            "ejections_total",
            "counter",
            "How often a server was left alone for a while.",
            self.ejections().into(),
        );
        add(
            "aborted_total",
            "counter",
            "Answers that broke off after their head.",
            self.aborted().into(),
        );
        add(
            "in_flight",
            "gauge",
            "Requests and upgraded connections that servers are busy with.",
            self.in_flight().into(),
        );
        add(
            "connections",
            "gauge",
            "Connections of clients.",
            self.connections().into(),
        );
        add(
            "tunnels",
            "gauge",
            "Upgraded connections.",
            self.tunnels().into(),
        );
        text.push_str("# HELP plimsoll_gateway_faults_total Requests answered by the gateway itself, by what was wrong.\n");
        text.push_str("# TYPE plimsoll_gateway_faults_total counter\n");
        for (word, count) in self.faults() {
            let _ = writeln!(
                text,
                "plimsoll_gateway_faults_total{{fault=\"{word}\"}} {count}"
            );
        }
        text
    }
}
