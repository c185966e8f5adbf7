//! Numbers that change with time.

use plimsoll_spec::scalar::{self, expected};
use plimsoll_spec::{Fields, Node, Read, Value, each};

use super::span;
use crate::profile::{Profile, Step};

/// Reads a number of at least 0 that may change with time.
pub(super) fn amounts(node: &Node) -> Read<Profile> {
    profile(node, scalar::fraction)
}

/// Reads a part of a whole that may change with time.
pub(super) fn shares(node: &Node) -> Read<Profile> {
    profile(node, share)
}

fn share(node: &Node) -> Read<f64> {
    let share = scalar::fraction(node).ok().filter(|share| *share <= 1.0);
    share.ok_or_else(|| expected("a share from 0 to 1", node))
}

/// Reads a number, steps (each in an instant or over a time), or a ramp.
pub(crate) fn profile(node: &Node, number: fn(&Node) -> Read<f64>) -> Read<Profile> {
    match &node.value {
        Value::Scalar { .. } => number(node).map(Profile::constant),
        Value::List(_) => points(node, &["at", "value", "over"], number).map(Profile::steps),
        Value::Map(_) => {
            let fields = Fields::of(node, "a number that changes", &["ramp"])?;
            let points = fields.required("ramp", |node| points(node, &["at", "value"], number))?;
            Ok(Profile::ramp(
                points.iter().map(|step| (step.at, step.value)),
            ))
        }
    }
}

fn points(node: &Node, known: &[&str], number: fn(&Node) -> Read<f64>) -> Read<Vec<Step>> {
    let mut last: Option<u64> = None;
    each(node, "a list of { at, value }", |item| {
        let fields = Fields::of(item, "a step", known)?;
        let at = fields.required("at", scalar::nanos)?;
        let over = fields.optional("over", span)?.unwrap_or(0);
        if last.is_some_and(|last| at < last || (at == last && over == 0)) {
            let wanted = "a moment after that of the step before";
            return fields.required("at", |node| Err(expected(wanted, node)));
        }
        if last.is_none() && over > 0 {
            return Err(fields.problem("over", "the first step has nothing to come from"));
        }
        last = Some(at.saturating_add(over));
        let value = fields.required("value", number)?;
        Ok(Step { at, value, over })
    })
}
