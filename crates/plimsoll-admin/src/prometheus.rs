//! The text format of Prometheus.

use std::fmt::Write;

/// Writes what comes before the values of a metric.
pub fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A value of a label, as it is written between quotes.
#[must_use]
pub fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
