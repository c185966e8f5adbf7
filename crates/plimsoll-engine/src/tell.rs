//! Notes how decisions end: counts refusals, and tells subscribers.

use std::sync::Arc;

use crate::decision::{Hold, Refusal};
use crate::events::{AskEvent, EventKey, LimitsEventKind};
use crate::members::Members;
use crate::parts::Member;

/// Tells of a decision that was admitted. Without subscribers a load of one flag.
#[inline]
pub(crate) fn tell_admitted(hold: &Hold) {
    let members = hold.members();
    if members.plan.audience.is_there() {
        let asked = asked(members);
        let kind = LimitsEventKind::Admitted { asked };
        members.plan.audience.tell(kind);
    }
}

/// Counts a decision that was refused, and tells of it.
#[cold]
pub(crate) fn note_refused(refusal: &Refusal) {
    let members = refusal.members();
    let plan = &members.plan;
    let binding = refusal.binding().and_then(|at| members.list.get(at));
    // Only names that the file knows: those that callers make up would have no bound.
    let number = binding.map_or_else(|| plan.limit(refusal.limit()), |it| Some(it.limit));
    let limit = number.map(|number| &plan.limits[number]);
    if let Some(limit) = limit {
        let key = binding.map_or("", |member| members.key(member));
        limit.seen.refused(refusal.denied(), key);
    }
    if plan.audience.is_there() {
        plan.audience.tell(LimitsEventKind::Refused {
            limit: limit.map(|limit| Arc::clone(&limit.name)),
            reason: refusal.denied().reason(),
            retry_after: refusal.retry_after(),
            asked: asked(members),
        });
    }
}

#[cold]
fn asked(members: &Members) -> Arc<[AskEvent]> {
    let ask = |(index, member): (usize, &Member)| {
        let denied = members.denials.get(index).and_then(Option::as_ref);
        let limit = members.limit(member);
        AskEvent {
            limit: Arc::clone(&limit.name),
            key: EventKey::of(members.key(member)),
            cost: member.cost,
            shadow: limit.shadow,
            denied: denied.map(plimsoll::Denied::reason),
        }
    };
    members.list.iter().enumerate().map(ask).collect()
}
