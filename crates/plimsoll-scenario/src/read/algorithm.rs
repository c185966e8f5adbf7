//! Reads limit algorithms and their traces.

use super::fields::{Fields, each};
use super::scalar::{Bare, count, expected, fraction, positive, rate, text, total, word};
use crate::error::{Problem, Read};
use crate::spec::{
    Algorithm, Finished, LatencyGradient, LimitRule, Range, Sample, Samples, Tick, Trace,
};
use crate::tree::{Node, Value};

/// An algorithm: its word, its own fields, how they are read.
type AlgorithmRow = (
    &'static str,
    &'static [&'static str],
    fn(&Fields<'_>, Bare) -> Read<LimitRule>,
);

const RANGE: [&str; 3] = ["min", "initial", "max"];
const COLUMNS: [&str; 5] = ["start_ns", "rtt_ns", "in_flight", "dropped", "limit_after"];

const ALGORITHMS: [AlgorithmRow; 6] = [
    (
        "aimd",
        &["min", "initial", "max", "backoff", "timeout"],
        aimd,
    ),
    (
        "vegas",
        &[
            "initial",
            "max",
            "smoothing",
            "probe_multiplier",
            "probe_jitter",
        ],
        vegas,
    ),
    (
        "gradient2",
        &[
            "min",
            "initial",
            "max",
            "smoothing",
            "long_window",
            "warmup",
            "tolerance",
            "queue_size",
        ],
        gradient2,
    ),
    (
        "windowed",
        &[
            "delegate",
            "min_window",
            "max_window",
            "window_size",
            "min_rtt",
        ],
        windowed,
    ),
    (
        "latency_gradient",
        &[
            "min",
            "initial",
            "max",
            "tolerance",
            "min_queue",
            "initial_queue",
        ],
        latency_gradient,
    ),
    ("verdict", &RANGE, |_, _| Ok(LimitRule::Verdict)),
];

/// The fields of an `adaptive` limiter beside the common ones: those of its algorithm, and the range in any case.
pub(crate) fn adaptive_fields(fields: &Fields<'_>) -> Read<Vec<&'static str>> {
    let (_, own, _) = row(fields)?;
    let range = RANGE.iter().copied().filter(|name| !own.contains(name));
    Ok(["algorithm"]
        .into_iter()
        .chain(range)
        .chain(own.iter().copied())
        .collect())
}

/// Reads the algorithm of an `adaptive` limiter from the limiter's own fields.
pub(crate) fn adaptive(fields: &Fields<'_>, bare: Bare) -> Read<Algorithm> {
    let (_, _, read) = row(fields)?;
    Ok(Algorithm {
        place: fields.place,
        rule: read(fields, bare)?,
        range: Range {
            min: fields.optional("min", positive)?,
            initial: fields.optional("initial", positive)?,
            max: fields.optional("max", positive)?,
        },
        said: fields
            .iter()
            .map(|entry| (entry.key.clone(), entry.value.place))
            .collect(),
    })
}

fn row(fields: &Fields<'_>) -> Read<AlgorithmRow> {
    fields.required("algorithm", |node| {
        word(node, &ALGORITHMS.map(|row| (row.0, row)))
    })
}

/// Reads an algorithm that stands alone.
pub(crate) fn algorithm(node: &Node, bare: Bare) -> Read<Algorithm> {
    let fields = Fields::any(node, "a limit: a map with an `algorithm`")?;
    let (word, own, _) = row(&fields)?;
    fields.only(
        &format!("the algorithm `{word}`"),
        &[["algorithm"].as_slice(), own].concat(),
    )?;
    adaptive(&fields, bare)
}

fn aimd(fields: &Fields<'_>, bare: Bare) -> Read<LimitRule> {
    Ok(LimitRule::Aimd {
        backoff: fields.optional("backoff", rate)?,
        timeout: fields.optional("timeout", |node| bare.period(node))?,
    })
}

fn vegas(fields: &Fields<'_>, _: Bare) -> Read<LimitRule> {
    let jitter = |node| each(node, "a list of numbers", rate);
    Ok(LimitRule::Vegas {
        smoothing: fields.optional("smoothing", rate)?,
        probe_multiplier: fields.optional("probe_multiplier", positive)?,
        probe_jitter: fields.optional("probe_jitter", jitter)?,
    })
}

fn gradient2(fields: &Fields<'_>, _: Bare) -> Read<LimitRule> {
    Ok(LimitRule::Gradient2 {
        smoothing: fields.optional("smoothing", rate)?,
        long_window: fields.optional("long_window", positive)?,
        warmup: fields.optional("warmup", count)?,
        tolerance: fields.optional("tolerance", rate)?,
        queue_size: fields.optional("queue_size", count)?,
    })
}

fn windowed(fields: &Fields<'_>, bare: Bare) -> Read<LimitRule> {
    Ok(LimitRule::Windowed {
        delegate: Box::new(fields.required("delegate", |node| algorithm(node, bare))?),
        min_window: fields.optional("min_window", |node| bare.duration(node))?,
        max_window: fields.optional("max_window", |node| bare.duration(node))?,
        window_size: fields.optional("window_size", positive)?,
        min_rtt: fields.optional("min_rtt", |node| bare.duration(node))?,
    })
}

fn latency_gradient(fields: &Fields<'_>, _: Bare) -> Read<LimitRule> {
    Ok(LimitRule::LatencyGradient(LatencyGradient {
        tolerance: fields.optional("tolerance", rate)?,
        min_queue: fields.optional("min_queue", positive)?,
        initial_queue: fields.optional("initial_queue", positive)?,
    }))
}

/// Reads a scenario that feeds samples to an algorithm.
pub(crate) fn trace(fields: &Fields<'_>) -> Read<Trace> {
    let limit = fields.required("limit", |node| algorithm(node, Bare::Nanos))?;
    let samples = if matches!(limit.rule, LimitRule::LatencyGradient(_)) {
        if fields.get("columns").is_some() {
            return Err(fields.problem("columns", "the rows of `latency_gradient` have no columns"));
        }
        Samples::LatencyGradient(
            fields.required("samples", |node| each(node, "a list of rows", tick))?,
        )
    } else {
        let order = fields.required("columns", columns)?;
        let row = |node| sample(node, order);
        Samples::Plain(fields.required("samples", |node| each(node, "a list of rows", row))?)
    };
    Ok(Trace { limit, samples })
}

/// Where each of [`COLUMNS`] stands in the rows.
fn columns(node: &Node) -> Read<[usize; 5]> {
    let names = each(node, "a list of columns", |item| {
        word(item, &COLUMNS.map(|name| (name, name)))
    })?;
    let mut order = [0; 5];
    for (name, place) in COLUMNS.iter().zip(&mut order) {
        let position = names.iter().position(|known| known == name);
        *place = position
            .ok_or_else(|| Problem::new(node.place, format!("the column `{name}` is missing")))?;
    }
    if names.len() > COLUMNS.len() {
        return Err(Problem::new(node.place, "a column is here twice"));
    }
    Ok(order)
}

fn sample(node: &Node, order: [usize; 5]) -> Read<(usize, Sample)> {
    let cells = cells(node, "a row of 5 numbers", 5)?;
    let [start, rtt, in_flight, dropped, limit_after] = order;
    let start_ns = cell(cells, start, total)?;
    let end_ns = start_ns.checked_add(cell(cells, rtt, total)?);
    let too_late =
        || expected("an end, start_ns + rtt_ns, below 2^64", &cells[rtt]).under_index(rtt);
    let sample = Sample {
        start_ns,
        end_ns: end_ns.ok_or_else(too_late)?,
        in_flight: cell(cells, in_flight, count)?,
        dropped: match cell(cells, dropped, total)? {
            0 => false,
            1 => true,
            _ => return Err(expected("0 or 1", &cells[dropped]).under_index(dropped)),
        },
        limit_after: cell(cells, limit_after, total)?,
    };
    Ok((node.place.line, sample))
}

fn tick(node: &Node) -> Read<(usize, Tick)> {
    const WHAT: &str = "a row that begins with s (4 values) or t (8 values)";
    let Value::List(row) = &node.value else {
        return Err(expected(WHAT, node));
    };
    let after = |cells, at| {
        Ok(Finished {
            avg: cell(cells, at, total)?,
            min: cell(cells, at + 1, total)?,
        })
    };
    let sort = row.first().map(text).transpose();
    let row = match sort.map_err(|problem| problem.under_index(0))?.as_deref() {
        Some("s") => {
            let cells = cells(node, WHAT, 4)?;
            Tick::Sample {
                duration_ms: cell(cells, 1, fraction)?,
                after: after(cells, 2)?,
            }
        }
        Some("t") => {
            let cells = cells(node, WHAT, 8)?;
            Tick::Tick {
                in_flight: cell(cells, 1, count)?,
                queued: cell(cells, 2, count)?,
                limit_after: cell(cells, 3, total)?,
                queue_limit_after: cell(cells, 4, total)?,
                after: after(cells, 5)?,
                samples_after: cell(cells, 7, total)?,
            }
        }
        Some(_) => return Err(expected("s or t", &row[0]).under_index(0)),
        None => return Err(expected(WHAT, node)),
    };
    Ok((node.place.line, row))
}

fn cells<'t>(node: &'t Node, what: &str, wanted: usize) -> Read<&'t [Node]> {
    match &node.value {
        Value::List(cells) if cells.len() == wanted => Ok(cells),
        Value::List(cells) => {
            let message = format!("expected {what}, found {} values", cells.len());
            Err(Problem::new(node.place, message))
        }
        _ => Err(expected(what, node)),
    }
}

fn cell<T>(cells: &[Node], at: usize, read: fn(&Node) -> Read<T>) -> Read<T> {
    read(&cells[at]).map_err(|problem| problem.under_index(at))
}
