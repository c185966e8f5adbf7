//! Reads traces.

use plimsoll_spec::scalar::{cost, expected, fraction, text, total, word};
use plimsoll_spec::{Algorithm, Fields, Node, Problem, Read, Value, each};

use super::limiter::algorithm;
use crate::spec::{Finished, Sample, Samples, Tick, Trace};

pub(crate) const COLUMNS: [&str; 5] = ["start_ns", "rtt_ns", "in_flight", "dropped", "limit_after"];

/// Reads a trace: an algorithm, and its samples.
pub(crate) fn trace(fields: &Fields<'_>) -> Read<Trace> {
    let limit = fields.required("limit", algorithm)?;
    let samples = if matches!(limit.spec, Algorithm::LatencyGradient { .. }) {
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

/// The position of each of [`COLUMNS`] in the rows.
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
        in_flight: cell(cells, in_flight, cost)?,
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
                in_flight: cell(cells, 1, cost)?,
                queued: cell(cells, 2, cost)?,
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
