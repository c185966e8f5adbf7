//! Reads [`Scenario`]s from text, up to the first error.
//!
//! One module per part of the format. Each reader takes a [`Node`] and returns a type of [`spec`](crate::spec); readers of lists
//! and maps add the path to an error.

mod expect;
mod limiter;
mod requests;
mod step;
mod trace;
mod units;
mod verb;

/// The words of the format, for its schema.
pub(crate) mod words {
    pub(crate) use super::expect::{FIELDS as EXPECTED, REASONS};
    pub(crate) use super::limiter::OF_STORES;
    pub(crate) use super::requests::{ANSWERED, MORE_REASONS, OF_ASK, OF_REQUEST};
    pub(crate) use super::step::EVENTS;
    pub(crate) use super::trace::COLUMNS;
    pub(crate) use super::verb::VERBS;
}

use plimsoll_spec::scalar::text;
use plimsoll_spec::{Fields, Node, Problem, Read, Value, document, each};

use self::units::nanos;
use crate::spec::{Body, Gate, Scenario};

/// Reads all scenarios of a file: a list of them, or a map with `about` and `scenarios`.
pub(crate) fn scenarios(text: &str) -> Read<Vec<Scenario>> {
    read(text).map_err(at_top)
}

fn read(file: &str) -> Read<Vec<Scenario>> {
    const WHAT: &str = "a list of scenarios";
    let root = document(file, WHAT)?;
    match &root.value {
        Value::List(_) => each(&root, WHAT, scenario),
        _ => {
            let fields = Fields::any(&root, WHAT)?;
            fields.only("a scenario file", &["about", "scenarios"])?;
            fields.optional("about", text)?;
            fields.required("scenarios", |node| each(node, WHAT, scenario))
        }
    }
}

fn scenario(node: &Node) -> Read<Scenario> {
    let name = Fields::any(node, "a scenario: a map with a `name`")?.get("name");
    let name = name.and_then(|entry| text(&entry.value).ok());
    read_scenario(node).map_err(|problem| in_scenario(problem, name.as_deref()))
}

fn read_scenario(node: &Node) -> Read<Scenario> {
    const KNOWN: [&str; 8] = [
        "name", "start", "limiter", "config", "steps", "limit", "columns", "samples",
    ];
    let fields = Fields::of(node, "a scenario", &KNOWN)?;
    let name = fields.required("name", text)?;
    let trace = fields.get("limit").is_some();
    let requests = fields.get("config").is_some();
    let strangers: &[&str] = if trace {
        &["limiter", "steps", "start", "config"]
    } else if requests {
        &["columns", "samples", "limiter"]
    } else {
        &["columns", "samples"]
    };
    if let Some(stranger) = strangers
        .iter()
        .find(|stranger| fields.get(stranger).is_some())
    {
        let message = if trace {
            "this does not go with `limit`"
        } else if requests {
            "this does not go with `config`"
        } else {
            "this goes with `limit`, not with `limiter`"
        };
        return Err(fields.problem(stranger, message));
    }
    let body = if trace {
        Body::Trace(trace::trace(&fields)?)
    } else if requests {
        Body::Requests(requests::requests(&fields)?)
    } else {
        Body::Gate(Box::new(gate(&fields)?))
    };
    Ok(Scenario {
        name,
        place: fields.place,
        body,
    })
}

/// Converts the path of a problem to that of the file: a file that is a list is read as the list `scenarios`.
pub(crate) fn at_top(problem: Problem) -> Problem {
    if problem.field().starts_with('[') {
        problem.under_key("scenarios")
    } else {
        problem
    }
}

/// Adds the name of the scenario to a problem.
pub(crate) fn in_scenario(problem: Problem, name: Option<&str>) -> Problem {
    match name {
        Some(name) => problem.remark(format_args!("in the scenario {name:?}")),
        None => problem,
    }
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
