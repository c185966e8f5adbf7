//! The server model.

use plimsoll::Outcome;
use plimsoll_spec::scalar::{expected, flag, fraction, text, word};
use plimsoll_spec::{Fields, Node, Problem, Read, Value, each};

use super::traffic::{class, regularly};
use super::work::{mix, work};
use super::{limit, positive_shape, shape, waiting_room};
use crate::pauses::Pauses;
use crate::profile::Profile;
use crate::simulation::{InnerGate, Stop};
use crate::station::{Contention, Failures, StationModel};

/// Maximum number of workers. A larger number is an error.
const MOST_WORKERS: f64 = 1e6;
/// Maximum number of stations: each is a bit in a request.
const MOST_STATIONS: usize = 32;

/// The fields of a server, or of a station of one.
const OF_A_STATION: [&str; 6] = [
    "workers",
    "service",
    "slow_down",
    "contention",
    "pauses",
    "failures",
];

pub(super) const OUTCOMES: [(&str, Outcome); 3] = [
    ("overload", Outcome::Overload),
    ("ignore", Outcome::Ignore),
    ("success", Outcome::Success),
];

/// The words of `late_work`, and whether each drops the work of a client that has left.
pub(super) const LATE_WORK: [(&str, bool); 2] = [("done", false), ("dropped", true)];

/// Reads the server of a file: one station, or several.
pub(super) fn stations(fields: &Fields<'_>) -> Read<Vec<Stop>> {
    let Some(entry) = fields.get("stations") else {
        return Ok(vec![Stop {
            name: "server".to_owned(),
            share: Profile::constant(1.0),
            holds: false,
            gate: None,
            model: model(fields, Some(fields.required("workers", worker_shape)?))?,
        }]);
    };
    if let Some(name) = OF_A_STATION.iter().find(|name| fields.get(name).is_some()) {
        return Err(fields.problem(name, "belongs to one of the `stations`"));
    }
    let mut names: Vec<String> = Vec::new();
    let stops = each(&entry.value, "a list of stations", |item| {
        let stop = stop(item)?;
        if names.contains(&stop.name) {
            let message = "there is a station of this name already";
            return Err(Problem::new(item.place, message).under_key("name"));
        }
        names.push(stop.name.clone());
        Ok(stop)
    });
    let stops = stops.map_err(|problem| problem.under_key("stations"))?;
    if stops.len() > MOST_STATIONS {
        return Err(fields.problem("stations", "there can be 32 at most"));
    }
    Ok(stops)
}

fn stop(node: &Node) -> Read<Stop> {
    let own = ["name", "share", "holds", "limit", "queue"];
    let fields = Fields::of(node, "a station", &[&own[..], &OF_A_STATION].concat())?;
    let workers = fields.optional("workers", worker_shape)?;
    if let (None, Some(name)) = (
        &workers,
        ["contention", "holds"]
            .iter()
            .find(|name| fields.get(name).is_some()),
    ) {
        return Err(fields.problem(name, "a station without `workers` has none to speak of"));
    }
    let limit = fields.optional("limit", limit)?;
    let queue = fields.optional("queue", waiting_room)?;
    if limit.as_ref().is_some_and(|limit| limit.make().is_none()) {
        return Err(fields.problem("limit", "the oracle is only for the first gate"));
    }
    if limit.is_none() && queue.is_some() {
        return Err(fields.problem("queue", "needs a `limit` to wait for"));
    }
    Ok(Stop {
        name: fields.required("name", text)?,
        share: fields
            .optional("share", shape::shares)?
            .unwrap_or_else(|| Profile::constant(1.0)),
        holds: fields.optional("holds", flag)?.unwrap_or(false),
        gate: limit.map(|limit| InnerGate { limit, queue }),
        model: model(&fields, workers)?,
    })
}

fn model(fields: &Fields<'_>, workers: Option<Profile>) -> Read<StationModel> {
    Ok(StationModel {
        workers,
        service: fields.required("service", mix)?,
        slow_down: fields
            .optional("slow_down", positive_shape)?
            .unwrap_or_else(|| Profile::constant(1.0)),
        contention: fields
            .optional("contention", contention)?
            .unwrap_or_default(),
        pauses: fields.optional("pauses", pauses)?,
        failures: fields
            .optional("failures", all_failures)?
            .unwrap_or_default(),
    })
}

fn worker_shape(node: &Node) -> Read<Profile> {
    shape::profile(node, workers)
}

fn workers(node: &Node) -> Read<f64> {
    let wanted = || expected("a number of workers, from 0 to 1000000", node);
    let number = fraction(node).ok();
    number
        .filter(|number| *number <= MOST_WORKERS)
        .ok_or_else(wanted)
}

/// Reads a factor, or a factor and the number from which on it applies.
fn contention(node: &Node) -> Read<Contention> {
    if !matches!(node.value, Value::Map(_)) {
        let factor = fraction(node)?;
        return Ok(Contention {
            factor,
            above: None,
        });
    }
    let fields = Fields::of(node, "contention", &["factor", "above"])?;
    Ok(Contention {
        factor: fields.required("factor", fraction)?,
        above: Some(fields.required("above", workers)?),
    })
}

fn pauses(node: &Node) -> Read<Pauses> {
    let fields = Fields::of(node, "pauses", &["every", "for"])?;
    let (every, length) = regularly(&fields)?;
    Ok(Pauses { every, length })
}

/// Reads one way to fail, or a list of them.
fn all_failures(node: &Node) -> Read<Vec<Failures>> {
    match node.value {
        Value::List(_) => each(node, "a list of failures", failures),
        _ => Ok(vec![failures(node)?]),
    }
}

fn failures(node: &Node) -> Read<Failures> {
    let fields = Fields::of(node, "failures", &["share", "priority", "outcome", "after"])?;
    let priority = |node: &Node| {
        class(&text(node)?).map_err(|hint| {
            let message = format!("unknown priority{hint}");
            Problem::new(node.place, message)
        })
    };
    Ok(Failures {
        share: fields.required("share", shape::shares)?,
        class: fields.optional("priority", priority)?,
        outcome: fields
            .optional("outcome", |node| word(node, &OUTCOMES))?
            .unwrap_or(Outcome::Overload),
        after: fields.optional("after", work)?,
    })
}
