//! Properties of cost descriptions: when a cost is known, and which body it is read from.

use plimsoll_config::uses::{CostPart, CostSpec};

/// Whether a cost counts the bytes of the request body.
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

/// Whether a cost is known before the request is served, and not corrected later.
pub(crate) const fn is_known_before(cost: &CostSpec) -> bool {
    match cost {
        CostSpec::Fixed(_) => true,
        CostSpec::Measured(part) => !part.is_late(),
        CostSpec::Estimated { actual, .. } => actual.is_none(),
        _ => false,
    }
}

/// Whether a cost is read from the response body.
pub(crate) fn reads_answer(cost: &CostSpec) -> bool {
    let actual = match cost {
        CostSpec::Measured(part) => Some(part),
        CostSpec::Estimated { actual, .. } => actual.as_ref(),
        _ => None,
    };
    actual.is_some_and(|part| matches!(part, CostPart::ResponseJson(_)))
}

/// Whether a cost is read from the request body.
pub(crate) fn cost_reads_body(cost: &CostSpec) -> bool {
    let is = |part: &CostPart| matches!(part, CostPart::Json(_));
    match cost {
        CostSpec::Measured(part) => is(part),
        CostSpec::Estimated { estimate, .. } => is(estimate),
        _ => false,
    }
}
