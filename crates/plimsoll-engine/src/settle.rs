//! The cost of a request that has been served.

use plimsoll_config::uses::{CostPart, CostSpec};
use plimsoll_tower::internals::{BodyBytes, Done};
use plimsoll_tower::{Head, ResponseHead, Usage};

use crate::request::BodyValues;
use crate::resolve::number;

/// The longest response body that is read as JSON.
const BOUND: usize = 64 * 1024;

/// The bodies of a request and its response, as far as limits charge by them.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// The count of request bytes, if they are counted.
    request: Option<BodyBytes>,
    /// The response body received so far; `None` if it is too long or not JSON.
    text: Option<Vec<u8>>,
    /// The values of the response body, when it is complete.
    answer: Option<BodyValues>,
}

impl Passed {
    /// The bodies of a request that has just arrived.
    pub(crate) fn of(head: &Head<'_>) -> Self {
        let request = head.extensions().get::<BodyBytes>().cloned();
        Self {
            request,
            ..Self::default()
        }
    }

    /// Reads the parts of the response from which costs are corrected.
    pub(crate) fn note(&mut self, done: &Done<'_>) {
        match done {
            Done::Answered(head) => self.text = is_json(*head).then(Vec::new),
            Done::Sent { complete: true, .. } => {
                let text = self.text.take();
                self.answer = text.map(|text| BodyValues::read(JSON, &text));
            }
            _ => {}
        }
    }

    /// Stores a part of the response body.
    pub(crate) fn see(&mut self, length: usize, copy: &dyn Fn(&mut Vec<u8>)) {
        if let Some(text) = &mut self.text {
            match text.len().saturating_add(length) <= BOUND {
                true => copy(text),
                false => self.text = None,
            }
        }
    }
}

const JSON: &str = "application/json";

fn is_json(head: ResponseHead<'_>) -> bool {
    let kind = head.headers().get(http::header::CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok())
        .is_some_and(BodyValues::is_json)
}

/// The part of a cost that is known only after the request has been served.
pub(crate) fn late(cost: &CostSpec) -> Option<&CostPart> {
    match cost {
        CostSpec::Measured(part) if part.is_late() => Some(part),
        CostSpec::Estimated { actual, .. } => actual.as_ref(),
        _ => None,
    }
}

pub(crate) const fn reads_body(part: &CostPart) -> bool {
    !matches!(part, CostPart::ResponseHeader(_))
}

/// The actual cost of a request, if `done` contains it. `taken` is the cost that was charged before.
pub(crate) fn cost_after(
    cost: &CostSpec,
    done: &Done<'_>,
    passed: Option<&Passed>,
    taken: u64,
) -> Option<u64> {
    if let CostSpec::Status(ranges) = cost {
        let head = answered(done)?;
        let status = head.status().as_u16();
        return Some(ranges.iter().any(|range| range.contains(status)).into());
    }
    match (late(cost)?, done) {
        (CostPart::ResponseHeader(name), _) => {
            let value = answered(done)?.headers().get(name);
            value.and_then(|value| number(value.as_bytes()))
        }
        (CostPart::RequestBytes, Done::Sent { .. }) => Some(passed?.request.as_ref()?.total()),
        (CostPart::ResponseBytes, Done::Sent { bytes, .. }) => Some(*bytes),
        // If the response has no such value, or is cut short, the charged cost stays.
        (CostPart::ResponseJson(pointer), Done::Sent { complete: true, .. }) => {
            passed?.answer.as_ref()?.number(pointer)
        }
        (
            CostPart::Usage,
            Done::Sent {
                usage, complete, ..
            },
        ) => Some(used(*usage, *complete, taken)),
        (CostPart::Usage, Done::RefusedInside { usage, .. }) => Some(used(*usage, false, taken)),
        _ => None,
    }
}

const fn answered<'d>(done: &Done<'d>) -> Option<ResponseHead<'d>> {
    match done {
        Done::Answered(head) | Done::RefusedInside { head, .. } => Some(*head),
        Done::Sent { .. } | Done::UntilHead(_) => None,
    }
}

/// The cost by usage. If the work was cut short, its usage may not have been reported in full: then at least `taken`.
fn used(usage: Option<&Usage>, complete: bool, taken: u64) -> u64 {
    let total = usage.map_or(0, Usage::total);
    match usage.map_or(complete, |usage| usage.is_known(complete)) {
        true => total,
        false => total.max(taken),
    }
}
