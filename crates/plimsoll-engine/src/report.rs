//! Reports decisions: counts refusals, and sends events to subscribers.

use std::sync::Arc;

use crate::decision::{Hold, Refusal};
use crate::events::{AskEvent, EventKey, LimitsEventKind};
use crate::members::Members;
use crate::state::Member;

/// Sends the event of an admitted decision. Without subscribers this is a load of one flag.
#[inline]
pub(crate) fn report_admitted(hold: &Hold) {
    let members = hold.members();
    if members.plan.subscribers.any() {
        let asked = asked(members);
        let kind = LimitsEventKind::Admitted { asked };
        members.plan.subscribers.emit(kind);
    }
}

/// Counts a refused decision, and sends its event.
#[cold]
pub(crate) fn report_refused(refusal: &Refusal) {
    let members = refusal.members();
    let plan = &members.plan;
    let binding = refusal.binding().and_then(|at| members.list.get(at));
    // Only limits of the file are counted: names from callers are unbounded.
    let number = binding.map_or_else(|| plan.limit(refusal.limit()), |it| Some(it.limit));
    let limit = number.map(|number| &plan.limits[number]);
    if let Some(limit) = limit {
        let key = binding.map_or("", |member| members.key(member));
        limit.stats.refused(refusal.denied(), key);
    }
    if plan.subscribers.any() {
        plan.subscribers.emit(LimitsEventKind::Refused {
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
