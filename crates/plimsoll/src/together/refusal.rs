//! Refusals of several limiters.

use super::asks::Asked;
use super::{List, One};
use crate::name::Name;
use crate::{Demand, Denied, Reason, Refusal};

/// The refusal by one member, counted and explained.
#[cold]
pub(crate) fn refuse<'a>(list: impl List<'a>, refuser: usize, denied: Denied) -> Denied {
    list.count_denied(refuser);
    // The refusal of a wait is that of the member that was waited for.
    let stays = !denied.reason().is_passing();
    explain(list, refuser, denied, stays)
}

/// The refusal of a reservation: the other members may have reserved something for later.
#[cold]
pub(super) fn refuse_reservation<'a>(
    list: impl List<'a>,
    refuser: usize,
    denied: Denied,
) -> Denied {
    list.count_denied(refuser);
    explain(list, refuser, denied, true)
}

/// The placeholder of a refusal that is not reported.
#[cold]
pub(crate) fn unexplained() -> Denied {
    Denied::new(Reason::Exhausted)
}

/// Completes the refusal of the first member that refuses: it lasts as long as the longest of all refusals. The other
/// members are only estimated: they have not refused.
#[cold]
fn explain<'a>(list: impl List<'a>, refuser: usize, denied: Denied, stays: bool) -> Denied {
    let mut latest = denied.retry_after();
    for index in 0..list.local() {
        let Some(demand) = list.demand(index).filter(|_| index != refuser) else {
            continue;
        };
        let member = list.member(index);
        if member.gate().is_some_and(|gate| gate.has_room(demand.cost)) {
            continue;
        }
        let Err(denied) = look(member, demand) else {
            continue;
        };
        latest = match (latest, denied.retry_after()) {
            (Some(one), Some(other)) => Some(one.max(other)),
            // A refusal because the wait is too long carries the length of the wait, if it is known.
            (known, None) if stays => known,
            _ => None,
        };
    }
    list.name_refusal(refuser, denied.with_retry_after(latest))
}

/// Whether a limiter would refuse, without counting it.
pub(super) fn look(member: One<'_>, demand: Demand) -> Result<(), Denied> {
    match member.gate() {
        Some(gate) => gate.hint(demand),
        None => member.limiter().estimate(demand),
    }
}

/// The answer that a limiter would give.
fn would_refuse(member: One<'_>, demand: Demand) -> Result<(), Denied> {
    match member.limiter() {
        Asked::Limiter(limiter) => limiter.estimate(demand),
        Asked::Key(_) => look(member, demand),
    }
}

/// The answer that the list would get.
pub(crate) fn estimate<'a>(list: impl List<'a>) -> Result<(), Denied> {
    if let Some((index, denied)) = too_large(list) {
        return Err(list.name_refusal(index, denied));
    }
    for index in 0..list.len() {
        if let Some(demand) = list.demand(index)
            && let Err(denied) = would_refuse(list.member(index), demand)
        {
            let stays = !denied.reason().is_passing();
            return Err(explain(list, index, denied, stays));
        }
    }
    Ok(())
}

/// The refusal of a sum above `u64::MAX`.
pub(crate) fn too_large<'a>(list: impl List<'a>) -> Option<(usize, Denied)> {
    let mut costs = (0..list.len()).map(|index| list.cost(index));
    let index = costs.position(|cost| cost.is_some_and(|cost| cost > u128::from(u64::MAX)))?;
    let limiter = match list.member(index).limiter() {
        Asked::Limiter(limiter) => limiter,
        Asked::Key(key) => {
            let denied = Denied::new(Reason::TooLarge);
            return Some((
                index,
                match key.name() {
                    Some(name) => denied.with_limiter(name),
                    None => denied,
                },
            ));
        }
    };
    let (now, seen) = (limiter.clock().now(), limiter.snapshot());
    let refusal = Refusal::until_returned().with_reason(Reason::TooLarge);
    let room = (seen.limit, seen.available);
    let denied = Denied::from_rule(
        refusal,
        now,
        room,
        Name::of(limiter.name(), limiter.metadata()),
    );
    Some((index, denied))
}
