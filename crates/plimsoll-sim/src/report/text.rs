use std::fmt::Write as _;

use crate::class::CLASSES;
use crate::units::millis;
use crate::{Compared, Simulation, Summary};

/// A column that only some simulations have.
type Extra = (&'static str, fn(&Summary) -> Option<f64>);

const HEAD: [&str; 11] = [
    "phase",
    "limit",
    "goodput",
    "p50",
    "p90",
    "p99",
    "rejected",
    "late",
    "settle",
    "recovery",
    "mean limit",
];

/// Formats a comparison as a table with a row for each phase and limit, followed by the expectations that are not met.
///
/// ```
/// use plimsoll_sim::{Comparison, Contender, Simulation, text};
///
/// let simulation = Simulation::from_text("overload.yaml", "
///     name: overload
///     duration: 10s
///     rate: 300
///     workers: 10
///     service: 50ms
///     expect: { all: { rejected: '< 1%' } }
/// ")?;
/// let compared = Comparison::of(&simulation).test(Contender::fixed(14)).run();
/// assert!(text(&simulation, &compared).contains("FAILED: fixed=14, all: expected rejected < 1%"));
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
#[must_use]
pub fn text(simulation: &Simulation, compared: &Compared) -> String {
    let mut rows: Vec<Vec<String>> = vec![HEAD.map(str::to_owned).to_vec()];
    let classes = classes(simulation);
    let extras = extras(simulation);
    let seeds = compared
        .limits
        .first()
        .map_or(0, |result| result.runs.len());
    let several = seeds > 1;
    if let Some(head) = rows.first_mut() {
        if several {
            head.insert(WORST, "worst seed".to_owned());
        }
        head.extend(extras.iter().map(|(name, _)| (*name).to_owned()));
        let rejected = |class: &usize| format!("rejected {}", CLASSES[*class].0);
        head.extend(classes.iter().map(rejected));
    }
    for phase in 0..simulation.phases().len() {
        for result in &compared.limits {
            if let Some(summary) = result.phases.get(phase) {
                let mut row = row(summary, &result.limit, &extras, &classes);
                if several {
                    row.insert(WORST, worst(result.worst(phase)));
                }
                rows.push(row);
            }
        }
    }
    let plural = if several { "s" } else { "" };
    let about = match simulation.about() {
        "" => String::new(),
        about => format!(": {about}"),
    };
    let mut out = format!("{}{about} ({seeds} seed{plural})\n", simulation.name());
    table(&mut out, &rows);
    for check in compared.checks().iter().filter(|check| !check.met) {
        let _ = writeln!(out, "  {check}");
    }
    out
}

/// The column of the worst seed, after the goodput.
const WORST: usize = 3;

fn worst(worst: Option<(f64, u64)>) -> String {
    match worst {
        Some((goodput, seed)) => format!("{:.1}% ({seed})", 100.0 * goodput),
        None => "-".to_owned(),
    }
}

/// The additional columns: failed requests if the server may fail, fairness if there are several processes.
fn extras(simulation: &Simulation) -> Vec<Extra> {
    let mut extras: Vec<Extra> = Vec::new();
    if simulation.may_fail() {
        extras.push(("failed", |summary| Some(summary.failed)));
    }
    if simulation.processes.len() > 1 {
        extras.push(("fairness", |summary| summary.fairness));
    }
    extras
}

/// The classes that have traffic, if there are several.
fn classes(simulation: &Simulation) -> Vec<usize> {
    let shares = simulation.traffic.shares.iter().enumerate();
    let classes: Vec<usize> = shares
        .filter(|(_, share)| share.peak() > 0.0)
        .map(|(class, _)| class)
        .collect();
    if classes.len() > 1 {
        classes
    } else {
        Vec::new()
    }
}

fn row(summary: &Summary, limit: &str, extras: &[Extra], classes: &[usize]) -> Vec<String> {
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let latency = |ms: Option<f64>| or_dash(ms.map(millis));
    let seconds = |span: Option<f64>| or_dash(span.map(|span| format!("{span:.1} s")));
    let spread = |limit: f64| match summary.limit_sd {
        Some(sd) if sd >= 0.05 => format!("{limit:.1} ±{sd:.1}"),
        _ => format!("{limit:.1}"),
    };
    let mut row = vec![
        summary.phase.clone(),
        limit.to_owned(),
        or_dash(summary.goodput.map(percent)),
        latency(summary.p50_ms),
        latency(summary.p90_ms),
        latency(summary.p99_ms),
        percent(summary.rejected),
        percent(summary.late),
        seconds(summary.settle_s),
        seconds(summary.recovery_s),
        or_dash(summary.limit.map(spread)),
    ];
    row.extend(
        extras
            .iter()
            .map(|(_, what)| or_dash(what(summary).map(percent))),
    );
    let of_class = |class: &usize| or_dash(summary.rejected_by_class[*class].map(percent));
    row.extend(classes.iter().map(of_class));
    row
}

/// Aligns the first two columns to the left, the others to the right.
pub(crate) fn table(out: &mut String, rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 | 1 => write!(out, "  {cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
}
