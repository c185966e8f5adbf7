//! What is said about a refusal.

use super::asks::Asked;
use super::{List, One};
use crate::name::Name;
use crate::{Demand, Denied, Reason, Refusal};

/// The refusal by one, counted and explained.
#[cold]
pub(crate) fn refuse<'a>(list: impl List<'a>, refuser: usize, denied: Denied) -> Denied {
    list.count_denied(refuser);
    // What is said about waiting is said by the one that was waited for.
    let stays = !denied.reason().is_passing();
    explain(list, refuser, denied, stays)
}

/// The refusal of a reservation: the others may have promised something for later.
#[cold]
pub(super) fn refuse_reservation<'a>(
    list: impl List<'a>,
    refuser: usize,
    denied: Denied,
) -> Denied {
    list.count_denied(refuser);
    explain(list, refuser, denied, true)
}

/// What stands for a refusal that is not reported.
#[cold]
pub(crate) fn unexplained() -> Denied {
    Denied::new(Reason::Exhausted)
}

/// Completes the refusal of the first that refuses: it lasts as long as that of the one that refuses longest. The others
/// are only looked at: they have not refused anything.
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
            // A refusal for too long a wait carries its length, as far as that is known.
            (known, None) if stays => known,
            _ => None,
        };
    }
    list.name_refusal(refuser, denied.with_retry_after(latest))
}

/// Whether a limiter would refuse, without its refusing.
pub(super) fn look(member: One<'_>, demand: Demand) -> Result<(), Denied> {
    match member.gate() {
        Some(gate) => gate.hint(demand),
        None => member.limiter().estimate(demand),
    }
}

/// What a limiter would answer.
fn would_refuse(member: One<'_>, demand: Demand) -> Result<(), Denied> {
    match member.limiter() {
        Asked::Limiter(limiter) => limiter.estimate(demand),
        Asked::Key(_) => look(member, demand),
    }
}

/// What the list would be answered.
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

/// The refusal of a sum that is more than can be asked for.
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
    let refusal = Refusal::until_returned().because(Reason::TooLarge);
    let room = (seen.limit, seen.available);
    let denied = Denied::from_rule(
        refusal,
        now,
        room,
        Name::of(limiter.name(), limiter.metadata()),
    );
    Some((index, denied))
}
