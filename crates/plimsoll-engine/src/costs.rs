//! What the cost of a request depends on.

use plimsoll_config::uses::{CostPart, CostSpec};

/// Whether it counts the bytes of the body.
pub(crate) fn counts_body(cost: &CostSpec) -> bool {
    let counts = |part: &CostPart| *part == CostPart::RequestBytes;
    match cost {
        CostSpec::Measured(part) => counts(part),
        CostSpec::Estimated {
            estimate, actual, ..
        } => counts(estimate) || actual.as_ref().is_some_and(counts),
        _ => false,
    }
}

/// Whether a cost is known when the request comes, and stays what it was then.
pub(crate) const fn is_known_before(cost: &CostSpec) -> bool {
    match cost {
        CostSpec::Fixed(_) => true,
        CostSpec::Measured(part) => !part.is_late(),
        CostSpec::Estimated { actual, .. } => actual.is_none(),
        _ => false,
    }
}

/// Whether it is read from the answer.
pub(crate) fn reads_answer(cost: &CostSpec) -> bool {
    let actual = match cost {
        CostSpec::Measured(part) => Some(part),
        CostSpec::Estimated { actual, .. } => actual.as_ref(),
        _ => None,
    };
    actual.is_some_and(|part| matches!(part, CostPart::ResponseJson(_)))
}

/// Whether it is read from the body before it is served.
pub(crate) fn cost_reads_body(cost: &CostSpec) -> bool {
    let is = |part: &CostPart| matches!(part, CostPart::Json(_));
    match cost {
        CostSpec::Measured(part) => is(part),
        CostSpec::Estimated { estimate, .. } => is(estimate),
        _ => false,
    }
}
