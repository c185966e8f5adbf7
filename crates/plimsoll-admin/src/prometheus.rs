//! The text format of Prometheus.

use std::fmt::Write;

/// Writes the `HELP` and `TYPE` lines of a metric.
pub fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Escapes the value of a label.
#[must_use]
pub fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
