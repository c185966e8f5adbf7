//! Decisions that are granted, as most are.

use plimsoll::{Denied, Permit};

use crate::decision::Hold;
use crate::handle::Handle;
use crate::members::Members;
use crate::parts::Member;
use crate::seen::Beyond;
use crate::tell::tell_admitted;

/// Decides if that is quickly done: all members are in memory, each grants when it is asked by itself, and each could be
/// undone exactly. Otherwise nothing is decided and nothing taken.
#[inline]
pub(crate) fn attempt(mut members: Members) -> Result<Hold, Members> {
    if members.failed {
        return Err(members);
    }
    // Most were asked as they were found.
    let taken = match members.permits.len() == members.list.len() {
        true => Some(false),
        false => attempt_rest(&mut members),
    };
    match taken {
        Some(shadow) if shadow || members.sampled || members.plan.audience.is_there() => {
            Ok(admitted(members))
        }
        Some(_) => Ok(Hold::new(members)),
        None => Err(members),
    }
}

/// Takes for each member that is enforced and was not asked yet, and says whether there are others.
fn attempt_rest(members: &mut Members) -> Option<bool> {
    let (plan, parts) = members.split();
    let limit = |member: &Member| &plan.limits[member.limit];
    let plain = |member: &Member| limit(member).is_plain(member.terms);
    let undoable = match &parts.list[..] {
        // One that is alone need not be undone.
        [one] => !limit(one).terms(one.terms).is_remote(),
        all => all.iter().all(plain),
    };
    let rest = parts.permits.len()..;
    let mut shadow = false;
    let mut take = |member: &Member| {
        let limit = limit(member);
        let handle = limit.terms(member.terms);
        if limit.shadow || matches!(handle, Handle::Unlimited) {
            shadow |= limit.shadow;
            parts.permits.push(None);
            return true;
        }
        let key = &parts.keys[member.key.clone()];
        let permit = handle.attempt(key, parts.like.cost(member.cost));
        let granted = permit.is_some();
        parts.permits.extend(granted.then_some(permit));
        granted
    };
    if undoable && parts.list[rest].iter().all(&mut take) {
        return Some(shadow);
    }
    members.undo();
    None
}

/// An admitted decision that is reported to subscribers.
pub(crate) fn admitted(members: Members) -> Hold {
    let hold = charged(members);
    tell_admitted(&hold);
    hold
}

/// An admitted decision. Limits in shadow mode are charged now, as if they were enforced.
pub(crate) fn charged(members: Members) -> Hold {
    let mut hold = Hold::new(members);
    for index in 0..hold.members().list.len() {
        let members = hold.members();
        let member = &members.list[index];
        let limit = members.limit(member);
        if !limit.shadow {
            if members.sampled {
                limit.seen.sample(members.key(member), member.cost);
            }
        } else if !members.handle(member).is_remote() {
            let subject = members.subject(member);
            let answer = subject.try_acquire(members.demand(member).at_once());
            shadowed(&mut hold, index, answer);
        }
    }
    hold
}

/// Keeps what a limit in shadow mode said.
pub(crate) fn shadowed(hold: &mut Hold, index: usize, answer: Result<Permit<'static>, Denied>) {
    let member = &hold.members().list[index];
    let limit = hold.members().limit(member);
    match answer {
        Ok(permit) => {
            if hold.members().sampled {
                limit.seen.sample(hold.members().key(member), member.cost);
            }
            hold.members_mut().keep_permit(index, permit);
        }
        Err(denied) => {
            limit.seen.would_refuse(hold.members().key(member));
            let returns = hold.members().standing(member).is_some_and(|it| it.returns);
            let beyond = returns.then(|| Beyond::new(&limit.seen, member.cost));
            hold.would_refuse(index, denied, beyond);
        }
    }
}
