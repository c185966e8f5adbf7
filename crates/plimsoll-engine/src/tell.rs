//! Tells subscribers how decisions end.

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

/// Tells of a decision that was refused.
#[inline]
pub(crate) fn tell_refused(refusal: &Refusal) {
    let members = refusal.members();
    let plan = &members.plan;
    if plan.audience.is_there() {
        let limit = plan.limit(refusal.limit());
        plan.audience.tell(LimitsEventKind::Refused {
            // Only names that the file knows: those that callers make up would have no bound.
            limit: limit.map(|limit| Arc::clone(&plan.limits[limit].name)),
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
