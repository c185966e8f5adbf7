//! What a gateway has counted.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::fault::Fault;

/// What a gateway has counted since it started.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) ejections: AtomicU64,
    pub(crate) aborted: AtomicU64,
    faults: [AtomicU64; Fault::ALL.len()],
    pub(crate) in_flight: AtomicI64,
    pub(crate) connections: AtomicI64,
    pub(crate) tunnels: AtomicI64,
}

impl Counts {
    /// How many requests were passed on to a pool.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How many requests were sent again to a server.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// How often a server was left alone for a while.
    #[must_use]
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// How many answers broke off after their head had been passed on.
    #[must_use]
    pub fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Relaxed)
    }

    /// How many requests and upgraded connections servers are busy with.
    #[must_use]
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// How many connections of clients there are.
    #[must_use]
    pub fn connections(&self) -> i64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many upgraded connections there are.
    #[must_use]
    pub fn tunnels(&self) -> i64 {
        self.tunnels.load(Ordering::Relaxed)
    }

    /// How often each fault was answered, by its word.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |fault: Fault| {
            (
                fault.word(),
                self.faults[fault as usize].load(Ordering::Relaxed),
            )
        };
        Fault::ALL.into_iter().map(count)
    }

    /// How often the fault of this word was answered.
    #[must_use]
    pub fn fault(&self, word: &str) -> u64 {
        self.faults()
            .find(|(known, _)| *known == word)
            .map_or(0, |(_, count)| count)
    }

    pub(crate) fn note(&self, fault: Fault) {
        self.faults[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All of it in the text format of Prometheus.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        let mut say = |name: &str, kind: &str, help: &str, value: i128| {
            let _ = writeln!(
                text,
                "# HELP plimsoll_gateway_{name} {help}\n# TYPE plimsoll_gateway_{name} {kind}\nplimsoll_gateway_{name} {value}"
            );
        };
        say(
            "requests_total",
            "counter",
            "Requests passed on to a pool.",
            self.requests().into(),
        );
        say(
            "retries_total",
            "counter",
            "Requests sent again to a server.",
            self.retries().into(),
        );
        say(
            "ejections_total",
            "counter",
            "How often a server was left alone for a while.",
            self.ejections().into(),
        );
        say(
            "aborted_total",
            "counter",
            "Answers that broke off after their head.",
            self.aborted().into(),
        );
        say(
            "in_flight",
            "gauge",
            "Requests and upgraded connections that servers are busy with.",
            self.in_flight().into(),
        );
        say(
            "connections",
            "gauge",
            "Connections of clients.",
            self.connections().into(),
        );
        say(
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
