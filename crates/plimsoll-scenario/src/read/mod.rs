//! From text to [`Scenario`]s, or to the first thing that is wrong with it.
//!
//! One module per part of the format. Each reader takes a node of the [tree] and gives a type of
//! [`spec`](crate::spec); lists and maps add to an error where it happened. Nothing here knows the limiters.

mod algorithm;
mod expect;
pub(crate) mod fields;
pub(crate) mod limiter;
pub mod scalar;
mod step;
mod verb;

use std::time::Duration;

pub(crate) use algorithm::algorithm;
use fields::{Fields, each};
use scalar::{Bare, text};

use crate::error::{Problem, Read};
use crate::reader::document;
use crate::spec::{Algorithm, Body, Gate, Scenario};
use crate::tree::{self, Entry, Node, Place, Value};

/// Reads all scenarios of a file: a list of them, or a map with `about` and `scenarios`.
pub(crate) fn scenarios(text: &str) -> Read<Vec<Scenario>> {
    read(text).map_err(Problem::at_top)
}

/// Reads a limit algorithm from its name and the map of its other fields, which may be left out.
pub(crate) fn limit(name: &str, parameters: &str) -> Read<Algorithm> {
    const WHAT: &str = "a map of parameters such as { initial: 20 }";
    let start = Place { line: 1, column: 1 };
    let mut node = tree::parse(parameters)?.unwrap_or(Node {
        place: start,
        value: Value::Map(Vec::new()),
    });
    let fields = Fields::any(&node, WHAT)?;
    if fields.get("algorithm").is_some() {
        return Err(fields.problem("algorithm", "this is not a parameter but the name"));
    }
    if let Value::Map(entries) = &mut node.value {
        entries.push(Entry::word("algorithm", name, start));
    }
    algorithm(&node, Bare::Refused)
}

fn read(text: &str) -> Read<Vec<Scenario>> {
    const WHAT: &str = "a list of scenarios";
    let root = document(text, WHAT)?;
    match &root.value {
        Value::List(_) => each(&root, WHAT, scenario),
        _ => {
            let fields = Fields::any(&root, WHAT)?;
            fields.only("a scenario file", &["about", "scenarios"])?;
            fields.optional("about", scalar::text)?;
            fields.required("scenarios", |node| each(node, WHAT, scenario))
        }
    }
}

fn scenario(node: &Node) -> Read<Scenario> {
    let name = Fields::any(node, "a scenario: a map with a `name`")?.get("name");
    let name = name.and_then(|entry| text(&entry.value).ok());
    read_scenario(node).map_err(|problem| problem.in_scenario(name))
}

fn read_scenario(node: &Node) -> Read<Scenario> {
    const KNOWN: [&str; 7] = [
        "name", "start", "limiter", "steps", "limit", "columns", "samples",
    ];
    let fields = Fields::of(node, "a scenario", &KNOWN)?;
    let name = fields.required("name", text)?;
    let trace = fields.get("limit").is_some();
    let strangers: &[&str] = if trace {
        &["limiter", "steps", "start"]
    } else {
        &["columns", "samples"]
    };
    if let Some(stranger) = strangers
        .iter()
        .find(|stranger| fields.get(stranger).is_some())
    {
        let message = if trace {
            "this does not go with `limit`"
        } else {
            "this goes with `limit`, not with `limiter`"
        };
        return Err(fields.problem(stranger, message));
    }
    let body = if trace {
        Body::Trace(algorithm::trace(&fields)?)
    } else {
        Body::Gate(gate(&fields)?)
    };
    Ok(Scenario {
        name,
        place: fields.place,
        body,
    })
}

/// A duration as scenarios write it: a number alone is nanoseconds.
fn duration(node: &Node) -> Read<Duration> {
    Bare::Nanos.duration(node)
}

fn period(node: &Node) -> Read<Duration> {
    Bare::Nanos.period(node)
}

fn nanos(node: &Node) -> Read<u64> {
    Bare::Nanos.nanos(node)
}

fn gate(fields: &Fields<'_>) -> Read<Gate> {
    let start = fields.optional("start", nanos)?.unwrap_or(0);
    let limiter = fields.required("limiter", limiter::limiter)?;
    let steps = fields.required("steps", |node| step::steps(node, &limiter, start))?;
    Ok(Gate {
        limiter,
        start,
        steps,
    })
}
