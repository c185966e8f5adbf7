//! Reads durations and moments of scenarios. A number without a unit is nanoseconds.

use std::time::Duration;

use plimsoll_spec::{Node, Read, Units};

pub(super) fn duration(node: &Node) -> Read<Duration> {
    Units::OrNanos.duration(node)
}

pub(super) fn nanos(node: &Node) -> Read<u64> {
    Units::OrNanos.nanos(node)
}
