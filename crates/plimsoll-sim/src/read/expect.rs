//! Expectations.

use plimsoll_spec::scalar::{self, expected, nearest, text};
use plimsoll_spec::{Fields, Node, Problem, Read, Value, label};

use super::traffic::class;
use crate::expect::{Expectation, METRICS, Metric, Plain, RELATIONS, Relation, Unit};
use crate::phase::Phase;

/// A map of phases to their expectations.
pub(super) fn expectations(node: &Node, phases: &[Phase]) -> Read<Vec<Expectation>> {
    let mut all = Vec::new();
    for entry in Fields::any(node, "a map of phases to what must hold of them")?.iter() {
        let under = |problem: Problem| problem.under_key(&label(&entry.key));
        let names = phases.iter().map(Phase::name);
        let Some(phase) = names.clone().position(|name| name == entry.key) else {
            let hint = nearest(&entry.key, names);
            return Err(under(Problem::new(
                entry.place,
                format!("unknown phase{hint}"),
            )));
        };
        all.extend(of_phase(&entry.value, phase).map_err(under)?);
    }
    Ok(all)
}

fn of_phase(node: &Node, phase: usize) -> Read<Vec<Expectation>> {
    let known = METRICS.map(|(word, _)| word);
    let fields = Fields::any(node, "a map such as { goodput: \">= 97%\" }")?;
    fields.only(
        "what is expected of a phase",
        &[known.as_slice(), &["good"]].concat(),
    )?;
    let mut all = Vec::new();
    for entry in fields.iter() {
        let under = |problem: Problem| problem.under_key(&entry.key);
        let metric = METRICS.iter().find(|(word, _)| *word == entry.key);
        let by_class: Option<fn(usize) -> Metric> = match metric {
            None => Some(Metric::GoodOf),
            Some((_, Metric::Plain(Plain::Rejected))) => Some(Metric::RejectedOf),
            Some(_) => None,
        };
        match (metric, by_class, &entry.value.value) {
            (_, Some(of), Value::Map(_)) | (None, Some(of), _) => {
                all.extend(of_classes(&entry.value, phase, of).map_err(under)?);
            }
            (Some((_, metric)), ..) => {
                all.push(expectation(&entry.value, phase, *metric).map_err(under)?);
            }
            (None, None, _) => {}
        }
    }
    Ok(all)
}

fn of_classes(node: &Node, phase: usize, of: fn(usize) -> Metric) -> Read<Vec<Expectation>> {
    let fields = Fields::any(node, "a map of priorities to what must hold of them")?;
    let each = fields.iter().map(|entry| {
        let read = || {
            let class = class(&entry.key)
                .map_err(|hint| Problem::new(entry.place, format!("unknown priority{hint}")))?;
            expectation(&entry.value, phase, of(class))
        };
        read().map_err(|problem: Problem| problem.under_key(&label(&entry.key)))
    });
    each.collect()
}

fn expectation(node: &Node, phase: usize, metric: Metric) -> Read<Expectation> {
    let unit = metric.unit();
    let (relation, value) = relation(node, unit)?;
    Ok(Expectation {
        phase,
        metric,
        relation,
        value,
    })
}

pub(crate) fn relation(node: &Node, unit: Unit) -> Read<(Relation, f64)> {
    let wanted = || {
        let example = match unit {
            Unit::Share => "\">= 97%\"",
            Unit::Millis => "\"<= 150ms\"",
            Unit::Seconds => "\"<= 3s\"",
            Unit::Number => "\"<= 1.15\"",
        };
        let what = format!("a condition such as {example} (with >=, <=, >, < or =)");
        expected(&what, node)
    };
    let condition = text(node).map_err(|_| wanted())?;
    let found = RELATIONS.iter().find_map(|(word, relation)| {
        let rest = condition.strip_prefix(word)?;
        Some((*relation, rest.trim()))
    });
    let (relation, rest) = found.ok_or_else(wanted)?;
    let value = value(rest, node, unit).ok_or_else(wanted)?;
    Ok((relation, value))
}

fn value(text: &str, node: &Node, unit: Unit) -> Option<f64> {
    let scalar = |text: &str, quoted: bool| {
        let text = text.to_owned();
        Node::new(node.place, Value::Scalar { text, quoted })
    };
    let number = |text: &str| scalar::fraction(&scalar(text, false)).ok();
    let duration = || scalar::duration(&scalar(text, false)).ok();
    match unit {
        Unit::Share => match text.strip_suffix('%') {
            Some(percent) => Some(number(percent)? / 100.0),
            None => number(text),
        },
        Unit::Millis => Some(duration()?.as_secs_f64() * 1000.0),
        Unit::Seconds => Some(duration()?.as_secs_f64()),
        Unit::Number => number(text),
    }
}
