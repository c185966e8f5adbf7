//! Reads a [`Fleet`] from text, or returns the first problem.

use std::path::Path;
use std::time::Duration;

use plimsoll_redis::Borrow;
use plimsoll_spec::scalar::{count, expected, fraction, nearest, period, positive, word};
use plimsoll_spec::{Fields, FileError, Node, Problem, Read, Value, document, each, text_of};

use super::model::{
    Busy, Fleet, FleetExpectation, FleetMetric, METRICS, Network, Outage, Partition, Sharing,
};
use crate::expect::Unit;
use crate::num::NANOS;
use crate::profile::Profile;
use crate::read::{duration, line, profile, relation, second};

const WHAT: &str = "a fleet: a map with a `name` and a `fleet`";
/// Maximum number of processes. A larger number is an error.
const MOST: u32 = 100_000;
const MOST_TOKENS: u64 = 1_000_000_000;

const KNOWN: [&str; 17] = [
    "processes",
    "sharing",
    "rate",
    "burst",
    "demand",
    "busy",
    "borrow",
    "timeout",
    "outage",
    "delay",
    "loss",
    "cuts",
    "restarts",
    "server_restarts",
    "partitions",
    "skew",
    "without",
];

impl Fleet {
    /// Whether a file describes a fleet rather than a server.
    pub(crate) fn is_in(text: &str) -> bool {
        let root = document(text, WHAT);
        root.is_ok_and(|root| Fields::any(&root, WHAT).is_ok_and(|it| it.get("fleet").is_some()))
    }

    /// Reads a fleet from a file in YAML or JSON.
    ///
    /// # Errors
    ///
    /// Returns an error with the line and the reason if the file cannot be read or does not describe a fleet.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        Self::from_text(path, &text_of(path)?)
    }

    /// Reads a fleet from `text`. `path` is used only in error messages.
    ///
    /// # Errors
    ///
    /// Returns an error with the line and the reason if `text` does not describe a fleet.
    pub fn from_text(path: impl AsRef<Path>, text: &str) -> Result<Self, FileError> {
        fleet(text).map_err(|problem| FileError::problem(path.as_ref(), problem))
    }
}

fn fleet(text: &str) -> Read<Fleet> {
    let root = document(text, WHAT)?;
    let fields = Fields::of(
        &root,
        "a fleet",
        &["name", "about", "duration", "fleet", "expect"],
    )?;
    let nanos = fields.required("duration", duration)?;
    let mut fleet = fields.required("fleet", |node| body(node, nanos))?;
    fleet.name = fields.required("name", line)?;
    fleet.about = fields.optional("about", line)?.unwrap_or_default();
    fleet.expectations = fields.optional("expect", expectations)?.unwrap_or_default();
    Ok(fleet)
}

fn body(node: &Node, nanos: u64) -> Read<Fleet> {
    let fields = Fields::of(node, "a fleet", &KNOWN)?;
    let rate = fields.required("rate", |node| up_to(node, 1_000_000))?;
    let sharing = sharing(&fields)?;
    Ok(Fleet {
        name: String::new(),
        about: String::new(),
        seconds: nanos / NANOS,
        processes: fields.required("processes", processes)?,
        rate,
        burst: fields
            .optional("burst", |node| up_to(node, MOST_TOKENS))?
            .unwrap_or(rate),
        demand: fields
            .optional("demand", |node| profile(node, multiple))?
            .unwrap_or_else(|| Profile::constant(1.5)),
        busy: fields.optional("busy", busy)?,
        network: network(&fields, &sharing, nanos)?,
        sharing,
        expectations: Vec::new(),
    })
}

/// Reads a whole number from 1 to `most`.
fn up_to(node: &Node, most: u64) -> Read<u64> {
    let number = positive(node).ok().filter(|number| *number <= most);
    number.ok_or_else(|| expected(&format!("a whole number from 1 to {most}"), node))
}

fn multiple(node: &Node) -> Read<f64> {
    let number = fraction(node).ok().filter(|number| *number <= 1000.0);
    number.ok_or_else(|| expected("a multiple of the rate from 0 to 1000", node))
}

fn processes(node: &Node) -> Read<Vec<u32>> {
    let one = |node: &Node| {
        let number = count(node, 1).ok().filter(|number| *number <= MOST);
        number.ok_or_else(|| expected("a number of processes from 1 to 100000", node))
    };
    match node.value {
        Value::List(_) => each(node, "a list of numbers of processes", one),
        _ => Ok(vec![one(node)?]),
    }
}

fn sharing(fields: &Fields<'_>) -> Read<Sharing> {
    const WAYS: [(&str, bool); 2] = [("borrowed", true), ("assigned", false)];
    const OUTAGES: [(&str, Outage); 3] = [
        ("deny", Outage::Deny),
        ("admit", Outage::Admit),
        ("local", Outage::Local),
    ];
    let borrowed = fields.required("sharing", |node| word(node, &WAYS))?;
    let foreign: &[&str] = if borrowed {
        &["without"]
    } else {
        &["borrow", "timeout", "outage", "loss"]
    };
    if let Some(name) = foreign.iter().find(|name| fields.get(name).is_some()) {
        let message = match (borrowed, *name) {
            (true, _) => {
                "is for `sharing: assigned`; what processes do without the store is `outage`"
            }
            (false, "loss") => {
                "is for `sharing: borrowed`: assignments travel on streams, which break by `cuts`"
            }
            (false, "outage") => {
                "is for `sharing: borrowed`; what proxies do without an assignment is `without`"
            }
            _ => "is for `sharing: borrowed`",
        };
        return Err(fields.problem(name, message));
    }
    if !borrowed {
        let admit = fields.optional("without", |node| {
            word(node, &[("deny", false), ("admit", true)])
        })?;
        return Ok(Sharing::Assigned {
            admit: admit.unwrap_or(false),
        });
    }
    Ok(Sharing::Borrowed {
        borrow: fields.optional("borrow", borrow)?.unwrap_or_default(),
        outage: fields
            .optional("outage", |node| word(node, &OUTAGES))?
            .unwrap_or(Outage::Deny),
        timeout: fields
            .optional("timeout", period)?
            .unwrap_or(Duration::from_millis(50)),
    })
}

fn borrow(node: &Node) -> Read<Borrow> {
    let fields = Fields::of(node, "borrowing", &["max", "target", "keep"])?;
    let mut borrow = Borrow::new();
    if let Some(max) = fields.optional("max", |node| up_to(node, MOST_TOKENS))? {
        borrow = borrow.max(max);
    }
    if let Some(target) = fields.optional("target", period)? {
        borrow = borrow.target(target);
    }
    if let Some(keep) = fields.optional("keep", period)? {
        borrow = borrow.keep(keep);
    }
    Ok(borrow)
}

fn part(node: &Node) -> Read<f64> {
    let part = fraction(node).ok().filter(|part| *part <= 1.0);
    part.ok_or_else(|| expected("a part from 0 to 1", node))
}

fn busy(node: &Node) -> Read<Busy> {
    let fields = Fields::of(node, "busy processes", &["part", "share"])?;
    let part = fields.required("part", |node| {
        let part = part(node)?;
        if part <= 0.0 || part >= 1.0 {
            return Err(expected("a part above 0 and below 1", node));
        }
        Ok(part)
    })?;
    Ok(Busy {
        part,
        share: fields.required("share", self::part)?,
    })
}

fn network(fields: &Fields<'_>, sharing: &Sharing, nanos: u64) -> Read<Network> {
    let cut = |node: &Node| {
        let fields = Fields::of(node, "a partition", &["from", "to", "part"])?;
        let from = fields.required("from", |node| second(node, nanos))?;
        let to = fields.required("to", |node| second(node, nanos))?;
        if from >= to {
            return Err(fields.problem("to", "a partition must end after it has begun"));
        }
        let part = fields.required("part", part)?;
        Ok(Partition { from, to, part })
    };
    let cuts = |node: &Node| each(node, "a list of partitions", cut);
    let moments = |node: &Node| each(node, "a list of moments", |item| second(item, nanos));
    let usual = match sharing {
        Sharing::Borrowed { .. } => Duration::from_millis(1),
        Sharing::Assigned { .. } => Duration::from_millis(20),
    };
    Ok(Network {
        delay: fields.optional("delay", period)?.unwrap_or(usual),
        loss: fields.optional("loss", part)?.unwrap_or(0.0),
        cuts: fields.optional("cuts", period)?,
        restarts: fields.optional("restarts", period)?,
        server_restarts: fields
            .optional("server_restarts", moments)?
            .unwrap_or_default(),
        partitions: fields.optional("partitions", cuts)?.unwrap_or_default(),
        skew: fields.optional("skew", period)?.unwrap_or_default(),
    })
}

fn expectations(node: &Node) -> Read<Vec<FleetExpectation>> {
    let fields = Fields::any(node, "a map such as { above: \"<= 100%\" }")?;
    let one = |entry: &plimsoll_spec::Entry| {
        let known = METRICS.iter().map(|(word, _)| *word);
        let found = METRICS.iter().find(|(word, _)| *word == entry.key);
        let Some((_, metric)) = found else {
            let hint = nearest(&entry.key, known);
            return Err(Problem::new(
                entry.place,
                format!("unknown field of what is expected{hint}"),
            ));
        };
        let unit = match metric {
            FleetMetric::Above | FleetMetric::Used | FleetMetric::UsedParted => Unit::Share,
            FleetMetric::Fairness | FleetMetric::Least | FleetMetric::Most => Unit::Number,
        };
        let (relation, value) = relation(&entry.value, unit)?;
        Ok(FleetExpectation {
            metric: *metric,
            relation,
            value,
        })
    };
    let each = fields.iter();
    each.map(|entry| {
        one(entry).map_err(|problem| problem.under_key(&plimsoll_spec::label(&entry.key)))
    })
    .collect()
}
