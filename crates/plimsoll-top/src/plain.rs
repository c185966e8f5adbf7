//! A plain table, for scripts and pipes.

use std::fmt::Write;

use crate::tick::Tick;

/// A table with one line for each limit. Names have no blanks, numbers are written in full, and missing values are `-`.
///
/// ```
/// use plimsoll_top::{Tick, plain};
///
/// let tick: Tick = serde_json::from_str(r#"{ "limits": [{ "name": "uploads", "kind": "concurrency", "mode": "enforce",
///     "limit": 8, "in_use": 3, "refused": { "exhausted": 2, "queue_full": 5 } }] }"#)?;
/// assert_eq!(plain(&tick).lines().last(), Some(
///     "uploads  concurrency  enforce  -     3       8       0        0      0        7        0       exhausted=2,queue_full=5  -"
/// ));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn plain(tick: &Tick) -> String {
    let heads = [
        "limit",
        "kind",
        "mode",
        "keys",
        "in_use",
        "number",
        "waiting",
        "queue",
        "granted",
        "refused",
        "shadow",
        "reasons",
        "latency_ms",
    ];
    let some = |it: Option<String>| {
        it.filter(|it| !it.is_empty())
            .unwrap_or_else(|| "-".to_owned())
    };
    let rows = tick.limits.iter().map(|it| {
        let reasons: Vec<String> = it
            .refused
            .iter()
            .map(|(reason, count)| format!("{reason}={count}"))
            .collect();
        let latency = it.learned.as_ref().and_then(|it| it.latency_ms);
        [
            it.name.clone(),
            it.word().to_owned(),
            some(Some(it.mode.clone())),
            some(it.keys.map(|it| it.to_string())),
            it.in_use.to_string(),
            number(it.limit),
            it.waiting.to_string(),
            number(it.queue_bound),
            it.granted_total.to_string(),
            it.refused_total().to_string(),
            it.would_refuse.to_string(),
            some(Some(reasons.join(","))),
            some(latency.map(|it| it.to_string())),
        ]
        .map(|cell| cell.replace(char::is_whitespace, "_"))
    });
    let rows: Vec<_> = std::iter::once(heads.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The largest number means "unbounded".
fn number(value: u64) -> String {
    match value {
        u64::MAX => "unlimited".to_owned(),
        value => value.to_string(),
    }
}
