/// Formats milliseconds for people, in a suitable unit.
pub(crate) fn millis(ms: f64) -> String {
    match ms {
        ..0.001 => format!("{:.0} ns", ms * 1e6),
        ..1.0 => format!("{:.0} us", ms * 1e3),
        ..10.0 => format!("{ms:.1} ms"),
        ..10_000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1000.0),
    }
}
