//! Numbers that change with time.

use plimsoll_spec::scalar::{self, expected};
use plimsoll_spec::{Fields, Node, Read, Value, each};

use crate::profile::Profile;

/// A number, 0 or more, that may change with time.
pub(super) fn amounts(node: &Node) -> Read<Profile> {
    profile(node, scalar::fraction)
}

/// A number, steps, or a ramp.
pub(super) fn profile(node: &Node, number: fn(&Node) -> Read<f64>) -> Read<Profile> {
    match &node.value {
        Value::Scalar { .. } => number(node).map(Profile::constant),
        Value::List(_) => points(node, number).map(Profile::steps),
        Value::Map(_) => {
            let fields = Fields::of(node, "a number that changes", &["ramp"])?;
            let points = fields.required("ramp", |node| points(node, number))?;
            Ok(Profile::ramp(points))
        }
    }
}

fn points(node: &Node, number: fn(&Node) -> Read<f64>) -> Read<Vec<(u64, f64)>> {
    let mut last = None;
    each(node, "a list of { at, value }", |item| {
        let fields = Fields::of(item, "a step", &["at", "value"])?;
        let at = fields.required("at", scalar::nanos)?;
        if last.is_some_and(|last| at <= last) {
            let wanted = "a moment after that of the step before";
            return fields.required("at", |node| Err(expected(wanted, node)));
        }
        last = Some(at);
        Ok((at, fields.required("value", number)?))
    })
}
