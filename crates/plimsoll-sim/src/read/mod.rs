//! Reads a [`Simulation`] from text, or returns the first problem.

mod expect;
mod server;
mod shape;
mod traffic;
mod work;

#[cfg(feature = "fleet")]
pub(crate) use expect::relation;
#[cfg(feature = "fleet")]
pub(crate) use shape::profile;

use std::path::Path;

use plimsoll::Outcome;
use plimsoll_spec::scalar::{expected, period, text};
use plimsoll_spec::{
    Fields, FileError, Node, Problem, Queue, Read, Units, Value, document, each, read_one, scalar,
    text_of,
};

use crate::contender::Contender;
use crate::num::NANOS;
use crate::phase::Phase;
use crate::profile::Profile;
use crate::simulation::{Simulation, WaitingRoom};

const WHAT: &str = "a simulation: a map with a `name`";
const KNOWN: [&str; 23] = [
    "name",
    "about",
    "duration",
    "deadline",
    "rate",
    "bursts",
    "clients",
    "retries",
    "priorities",
    "processes",
    "stations",
    "workers",
    "service",
    "slow_down",
    "contention",
    "pauses",
    "failures",
    "late_outcome",
    "late_work",
    "queue",
    "phases",
    "ideal",
    "limit",
];
/// The longest simulation, one day. A longer one is an error.
const LONGEST: u64 = 86_400 * NANOS;

impl Simulation {
    /// Reads a simulation from a file in YAML or JSON.
    ///
    /// # Errors
    ///
    /// Returns an error with the line and the reason if the file cannot be read or does not describe a simulation.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        Self::from_text(path, &text_of(path)?)
    }

    /// Reads a simulation from `text`. `path` is used only in error messages.
    ///
    /// ```
    /// use plimsoll_sim::Simulation;
    ///
    /// let error = Simulation::from_text("overload.yaml", "name: overload\nduration: 20s\nratte: 300\n").unwrap_err();
    /// assert!(error.to_string().contains("did you mean `rate`?"), "{error}");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error with the line and the reason if `text` does not describe a simulation.
    pub fn from_text(path: impl AsRef<Path>, text: &str) -> Result<Self, FileError> {
        simulation(text).map_err(|problem| FileError::problem(path.as_ref(), problem))
    }
}

/// Reads the one simulation of a file.
fn simulation(text: &str) -> Read<Simulation> {
    let root = document(text, WHAT)?;
    let fields = Fields::any(&root, WHAT)?;
    fields.only("a simulation", &[KNOWN.as_slice(), &["expect"]].concat())?;
    let name = fields.required("name", line)?;
    let about = fields.optional("about", line)?.unwrap_or_default();
    let duration = fields.required("duration", duration)?;
    let phases = fields.optional("phases", |node| phases(node, duration))?;
    let phases = phases.unwrap_or_else(|| vec![whole(duration)]);
    let simulation = Simulation {
        name,
        about,
        duration,
        deadline: fields.optional("deadline", span)?.unwrap_or(NANOS),
        traffic: traffic::traffic(&fields)?,
        processes: fields
            .optional("processes", traffic::processes)?
            .unwrap_or_else(|| vec![1.0]),
        stations: server::stations(&fields)?,
        late_outcome: fields
            .optional("late_outcome", |node| scalar::word(node, &server::OUTCOMES))?
            .unwrap_or(Outcome::Overload),
        drops_late: fields
            .optional("late_work", |node| scalar::word(node, &server::LATE_WORK))?
            .unwrap_or(false),
        queue: fields.optional("queue", waiting_room)?,
        log: None,
        best: std::sync::Arc::default(),
        ideal: fields.optional("ideal", shape::amounts)?,
        limit: fields
            .optional("limit", limit)?
            .unwrap_or_else(Contender::default_limit),
        expectations: fields
            .optional("expect", |node| expect::expectations(node, &phases))?
            .unwrap_or_default(),
        phases,
    };
    let mut stations = simulation.stations.iter();
    if simulation.ideal.is_none() && !stations.all(|stop| stop.model.service.has_mean()) {
        let message = "this field is missing: the mean service time is infinite, so the capacity of \
                       the server is unknown";
        return Err(Problem::new(fields.place, message).under_key("ideal"));
    }
    Ok(simulation)
}

/// Reads a text and joins its lines, because it becomes the head of a table and of a picture.
pub(crate) fn line(node: &Node) -> Read<String> {
    let words = text(node)?;
    Ok(words.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Reads a span above 0, in nanoseconds.
fn span(node: &Node) -> Read<u64> {
    let span = period(node)?;
    Ok(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

pub(crate) fn duration(node: &Node) -> Read<u64> {
    let duration = span(node)?;
    if duration % NANOS != 0 || duration > LONGEST {
        return Err(expected("whole seconds, a day at most", node));
    }
    Ok(duration)
}

/// Reads a number above 0 that a ramp or steps may change.
fn positive_shape(node: &Node) -> Read<Profile> {
    shape::profile(node, scalar::rate)
}

fn waiting_room(node: &Node) -> Read<WaitingRoom> {
    let spec: Queue = read_one(node, Units::Required)?;
    Ok(WaitingRoom {
        queue: spec.build(),
        bound: spec.bound,
        timeout: spec.timeout.map(|timeout| timeout.0),
    })
}

/// Reads the name of a limit, or an algorithm with its parameters.
fn limit(node: &Node) -> Read<Contender> {
    if matches!(node.value, Value::Map(_)) {
        return Contender::described(node);
    }
    let name = text(node)?;
    Contender::named(&name).map_err(|unknown| Problem::new(node.place, unknown.to_string()))
}

fn phases(node: &Node, duration: u64) -> Read<Vec<Phase>> {
    let mut names: Vec<String> = Vec::new();
    each(node, "a list of phases", |item| {
        let fields = Fields::of(item, "a phase", &["name", "from", "to"])?;
        let name = fields.required("name", text)?;
        if names.contains(&name) {
            return Err(fields.problem("name", "there is a phase of this name already"));
        }
        names.push(name.clone());
        let from = fields.required("from", |node| second(node, duration))?;
        let to = fields.required("to", |node| second(node, duration))?;
        if from >= to {
            return Err(fields.problem("to", "a phase must end after it has begun"));
        }
        Ok(Phase { name, from, to })
    })
}

pub(crate) fn second(node: &Node, duration: u64) -> Read<u64> {
    let nanos = scalar::nanos(node)?;
    if nanos % NANOS != 0 {
        return Err(expected("whole seconds", node));
    }
    if nanos > duration {
        return Err(expected("a moment within the simulation", node));
    }
    Ok(nanos / NANOS)
}

fn whole(duration: u64) -> Phase {
    Phase {
        name: "all".to_owned(),
        from: 0,
        to: duration / NANOS,
    }
}
