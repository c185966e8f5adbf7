//! The fast path of a decision with a [`Hold`]: each member is asked separately, and undone if another one refuses.

use plimsoll::{Denied, Permit};

use crate::decision::Hold;
use crate::handle::Handle;
use crate::members::Members;
use crate::report::report_admitted;
use crate::state::Member;
use crate::stats::ShadowExcess;

/// Fast path: decides without waiting, if all members are in memory, each grants separately, and each can be undone
/// exactly.
///
/// # Errors
///
/// Returns the members, with nothing taken, if the fast path does not apply or a member does not grant. The slow path
/// decides then.
#[inline]
pub(crate) fn attempt(mut members: Members) -> Result<Hold, Members> {
    if members.failed {
        return Err(members);
    }
    // Most members were asked while they were resolved.
    let taken = match members.permits.len() == members.list.len() {
        true => Some(false),
        false => attempt_rest(&mut members),
    };
    match taken {
        Some(shadow) if shadow || members.sampled || members.plan.subscribers.any() => {
            Ok(admitted(members))
        }
        Some(_) => Ok(Hold::new(members)),
        None => Err(members),
    }
}

/// Takes for each enforced member that was not asked yet. Returns whether there are members in shadow mode; `None` if a member
/// does not grant.
fn attempt_rest(members: &mut Members) -> Option<bool> {
    let (plan, state) = members.split();
    let limit = |member: &Member| &plan.limits[member.limit];
    let is_undoable = |member: &Member| limit(member).is_undoable(member.terms);
    let undoable = match &state.list[..] {
        // A single member is never undone.
        [one] => !limit(one).terms(one.terms).is_remote(),
        all => all.iter().all(is_undoable),
    };
    let rest = state.permits.len()..;
    let mut shadow = false;
    let mut take = |member: &Member| {
        let limit = limit(member);
        let handle = limit.terms(member.terms);
        if limit.shadow || matches!(handle, Handle::Unlimited) {
            shadow |= limit.shadow;
            state.permits.push(None);
            return true;
        }
        let key = &state.keys[member.key.clone()];
        let permit = handle.attempt(key, state.like.cost(member.cost));
        let granted = permit.is_some();
        state.permits.extend(granted.then_some(permit));
        granted
    };
    if undoable && state.list[rest].iter().all(&mut take) {
        return Some(shadow);
    }
    members.undo();
    None
}

/// The hold of an admitted decision, which is reported to subscribers.
pub(crate) fn admitted(members: Members) -> Hold {
    let hold = charged(members);
    report_admitted(&hold);
    hold
}

/// The hold of an admitted decision. Limits in shadow mode are asked now, as if they were enforced.
pub(crate) fn charged(members: Members) -> Hold {
    let mut hold = Hold::new(members);
    for index in 0..hold.members().list.len() {
        let members = hold.members();
        let member = &members.list[index];
        let limit = members.limit(member);
        if !limit.shadow {
            if members.sampled {
                limit.stats.sample(members.key(member), member.cost);
            }
        } else if !members.handle(member).is_remote() {
            let subject = members.subject(member);
            let answer = subject.try_acquire(members.demand(member).at_once());
            shadowed(&mut hold, index, answer);
        }
    }
    hold
}

/// Stores the answer of a limit in shadow mode.
pub(crate) fn shadowed(hold: &mut Hold, index: usize, answer: Result<Permit<'static>, Denied>) {
    let member = &hold.members().list[index];
    let limit = hold.members().limit(member);
    match answer {
        Ok(permit) => {
            if hold.members().sampled {
                limit.stats.sample(hold.members().key(member), member.cost);
            }
            hold.members_mut().store_permit(index, permit);
        }
        Err(denied) => {
            limit.stats.would_refuse(hold.members().key(member));
            let returns = hold.members().standing(member).is_some_and(|it| it.returns);
            let beyond = returns.then(|| ShadowExcess::new(&limit.stats, member.cost));
            hold.would_refuse(index, denied, beyond);
        }
    }
}
