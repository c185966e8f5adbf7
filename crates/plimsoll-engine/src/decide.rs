//! One decision over many limits: all grant, or none does.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use plimsoll::together::{Ask, Permits, Waiting};
use plimsoll::{Denied, Permit};
use smallvec::SmallVec;

use crate::decision::{Denials, Hold, Refusal};
use crate::handle::{Handle, blocked};
use crate::members::{FEW, Member, Members};
use crate::seen::Beyond;
#[cfg(feature = "redis")]
use crate::stores::{self, AskStores, StoresSaid};

/// Takes now, or refuses. Limits in stores answer what is known in this process.
pub(crate) fn try_decide(members: Members) -> Result<Hold, Refusal> {
    if let Some(index) = blocked_at(&members) {
        return Err(refuse(members, index, &blocked()));
    }
    let taken = take(
        &members,
        &|member| members.is_asked(member),
        |asks, permits| {
            Ask::try_all(asks, permits).map_err(|refused| (refused.index, refused.denied))
        },
    );
    match taken {
        Ok(permits) => Ok(admitted(members, permits)),
        Err((index, denied)) => Err(refuse(members, index, &denied)),
    }
}

/// The permits of members, by their positions.
type Taken = SmallVec<[(usize, Permit<'static>); FEW]>;

/// Takes for all selected members in the way of `how`.
fn take<E>(
    members: &Members,
    select: &dyn Fn(&Member) -> bool,
    how: impl for<'a> FnOnce(&[Ask<'a>], &mut Permits<'a>) -> Result<(), (usize, E)>,
) -> Result<Taken, (usize, E)> {
    members.with_asks(select, |asks, positions| {
        let mut permits = Permits::new();
        how(asks, &mut permits).map_err(|(index, why)| (positions[index], why))?;
        let permits = permits.into_each().map(Permit::into_owned);
        Ok(positions.iter().copied().zip(permits).collect())
    })
}

fn blocked_at(members: &Members) -> Option<usize> {
    let is_blocked = |member: &Member| {
        matches!(members.handle(member), Handle::Blocked) && members.is_asked(member)
    };
    members.list.iter().position(is_blocked)
}

/// What is held of an admitted decision. Limits in shadow mode are charged now, as if they were enforced.
fn admitted(members: Members, taken: impl IntoIterator<Item = (usize, Permit<'static>)>) -> Hold {
    let mut hold = Hold::new(members);
    for (index, permit) in taken {
        hold.keep_permit(index, Some(permit));
    }
    for index in 0..hold.members().len() {
        let member = &hold.members().list[index];
        let limit = hold.members().limit(member);
        if !limit.shadow {
            limit.seen.admitted(hold.members().key(member), member.cost);
        } else if !hold.members().handle(member).is_remote() {
            let subject = hold.members().subject(member);
            let answer = subject.try_acquire(hold.members().demand(member).at_once());
            shadowed(&mut hold, index, answer);
        }
    }
    hold
}

/// Keeps what a limit in shadow mode said.
fn shadowed(hold: &mut Hold, index: usize, answer: Result<Permit<'static>, Denied>) {
    let member = &hold.members().list[index];
    let limit = hold.members().limit(member);
    match answer {
        Ok(permit) => {
            limit.seen.admitted(hold.members().key(member), member.cost);
            hold.keep_permit(index, Some(permit));
        }
        Err(denied) => {
            limit.seen.would_refuse(hold.members().key(member));
            let returns = hold.members().standing(member).is_some_and(|it| it.returns);
            let beyond = returns.then(|| Beyond::new(&limit.seen, member.cost));
            hold.would_refuse(index, denied, beyond);
        }
    }
}

/// A refused decision, with what every other limit would say.
#[cold]
pub(crate) fn refuse(members: Members, first: usize, denied: &Denied) -> Refusal {
    let denial = |(index, member): (usize, &Member)| {
        let is_first = index == first;
        if members.handle(member).is_remote() {
            return is_first.then(|| denied.clone());
        }
        let demand = members.like.cost(members.whole_cost(member));
        let alone = members.subject(member).estimate(demand.at_once()).err();
        // The refusal says when all would grant; what one says by itself is asked for again.
        match alone {
            Some(alone) if !is_first || alone.reason() == denied.reason() => Some(alone),
            None if !is_first => None,
            _ => Some(denied.clone()),
        }
    };
    let denials: Denials = members.list.iter().enumerate().map(denial).collect();
    let refusal = Refusal::new(members, denials, first);
    note_refused(&refusal);
    refusal
}

/// Counts a refusal.
fn note_refused(refusal: &Refusal) {
    let members = refusal.members();
    if let Some(member) = refusal.binding().and_then(|at| members.list.get(at)) {
        let seen = &members.limit(member).seen;
        seen.refused(refusal.denied(), members.key(member));
    }
}

/// What [`try_decide`] would answer. Takes nothing, counts nothing and leaves no key behind.
pub(crate) fn peek(members: Members) -> Result<Hold, Refusal> {
    let look = |member: &Member| {
        if members.handle(member).is_remote() {
            return None;
        }
        let demand = members.like.cost(members.whole_cost(member));
        members.subject(member).estimate(demand.at_once()).err()
    };
    let denials: Denials = members.list.iter().map(look).collect();
    let refuses =
        |(index, member): &(usize, &Member)| denials[*index].is_some() && members.is_asked(member);
    match members.list.iter().enumerate().find(refuses) {
        Some((first, _)) => Err(Refusal::new(members, denials, first)),
        None => {
            let mut hold = Hold::new(members);
            for (index, denied) in denials.into_iter().enumerate() {
                if let Some(denied) = denied {
                    hold.would_refuse(index, denied, None);
                }
            }
            Ok(hold)
        }
    }
}

/// A decision that may wait: in queues of limits that have one, and for stores.
///
/// It holds nothing while it waits in queues. Dropping it leaves them, and undoes what was granted while a store was
/// asked.
#[must_use = "futures do nothing unless they are polled"]
pub struct Decide {
    stage: Stage,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a decision that is made at once is not boxed: nothing is allocated while limits grant"
)]
enum Stage {
    Done(Option<Result<Hold, Refusal>>),
    Waiting(Box<(Members, Waiting)>),
    /// Everything in memory is granted, and stores are asked.
    #[cfg(feature = "redis")]
    Stores(Members, Taken, AskStores),
}

/// Whether a member is asked with the others, in memory.
fn is_local(members: &Members, member: &Member) -> bool {
    members.is_asked(member) && !members.handle(member).is_remote()
}

impl Decide {
    pub(crate) fn start(mut members: Members) -> Self {
        if let Some(index) = blocked_at(&members) {
            return Self::refused(members, index, &blocked());
        }
        members.fix_deadline();
        let local = |member: &Member| is_local(&members, member);
        let attempted = take(&members, &local, |asks, permits| {
            match Ask::attempt_all(asks, permits) {
                true => Ok(()),
                false => Err((0, ())),
            }
        });
        if let Ok(taken) = attempted {
            return Self::after_memory(members, taken);
        }
        let may_wait = |member: &Member| local(member) && members.handle(member).has_queue();
        if !members.list.iter().any(may_wait) {
            let taken = take(&members, &local, |asks, permits| {
                Ask::try_all(asks, permits).map_err(|refused| (refused.index, refused.denied))
            });
            return match taken {
                Ok(taken) => Self::after_memory(members, taken),
                Err((index, denied)) => Self::refused(members, index, &denied),
            };
        }
        let waiting = members.with_asks(local, |asks, positions| {
            Waiting::start(asks).map_err(|refused| (positions[refused.index], refused.denied))
        });
        match waiting {
            Ok(waiting) => Self {
                stage: Stage::Waiting(Box::new((members, waiting))),
            },
            Err((index, denied)) => Self::refused(members, index, &denied),
        }
    }

    pub(crate) const fn ready(result: Result<Hold, Refusal>) -> Self {
        Self {
            stage: Stage::Done(Some(result)),
        }
    }

    fn refused(members: Members, index: usize, denied: &Denied) -> Self {
        Self::ready(Err(refuse(members, index, denied)))
    }

    /// Everything in memory that is enforced is granted.
    fn after_memory(members: Members, taken: Taken) -> Self {
        #[cfg(feature = "redis")]
        if stores::has_any(&members) {
            let asking = stores::ask(&members, members.like);
            return Self {
                stage: Stage::Stores(members, taken, asking),
            };
        }
        Self::ready(Ok(admitted(members, taken)))
    }

    /// The decision, if it was made without waiting. After that it must not be polled.
    #[doc(hidden)]
    pub fn now(&mut self) -> Option<Result<Hold, Refusal>> {
        match &mut self.stage {
            Stage::Done(done) => done.take(),
            _ => None,
        }
    }
}

/// The decision, when stores have answered.
#[cfg(feature = "redis")]
fn answered(members: Members, mut taken: Taken, mut said: StoresSaid) -> Result<Hold, Refusal> {
    let told = said.told();
    let mut denials = said.denials(members.len());
    if let Some(permits) = said.permits.take() {
        taken.extend(permits);
        let mut hold = admitted(members, taken);
        for (index, denied) in denials.into_iter().enumerate() {
            if let Some(denied) = denied {
                shadowed(&mut hold, index, Err(denied));
            }
        }
        hold.keep_told(told);
        return Ok(hold);
    }
    undo(&members, taken);
    for (index, member) in members.list.iter().enumerate() {
        if !members.handle(member).is_remote() {
            let demand = members.like.cost(members.whole_cost(member));
            denials[index] = members.subject(member).estimate(demand.at_once()).err();
        }
    }
    let first = said.first_refuser().unwrap_or(0);
    let refusal = Refusal::new(members, denials, first).told(told, said.compensated);
    note_refused(&refusal);
    Err(refusal)
}

/// Undoes what was taken from limits in memory.
#[cfg(feature = "redis")]
fn undo(members: &Members, taken: Taken) {
    for (index, permit) in taken.into_iter().rev() {
        members.subject(&members.list[index]).undo(permit);
    }
}

impl Future for Decide {
    type Output = Result<Hold, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.stage {
                Stage::Done(done) => {
                    let Some(done) = done.take() else {
                        unreachable!("a future is not polled after it is done")
                    };
                    return Poll::Ready(done);
                }
                Stage::Waiting(here) => {
                    let (members, waiting) = &mut **here;
                    let answer = ready!(poll_waiting(members, waiting, cx));
                    let Stage::Waiting(here) =
                        std::mem::replace(&mut self.stage, Stage::Done(None))
                    else {
                        unreachable!("it waits")
                    };
                    let (members, _) = *here;
                    *self = match answer {
                        Ok(taken) => Self::after_memory(members, taken),
                        Err((index, denied)) => Self::refused(members, index, &denied),
                    };
                }
                #[cfg(feature = "redis")]
                Stage::Stores(_, _, asking) => {
                    let said = ready!(asking.as_mut().poll(cx));
                    let Stage::Stores(members, taken, _) =
                        std::mem::replace(&mut self.stage, Stage::Done(None))
                    else {
                        unreachable!("it asks")
                    };
                    *self = Self::ready(answered(members, taken, said));
                }
            }
        }
    }
}

/// The permits of members, when all have granted.
fn poll_waiting(
    members: &Members,
    waiting: &mut Waiting,
    cx: &mut Context<'_>,
) -> Poll<Result<Taken, (usize, Denied)>> {
    let local = |member: &Member| is_local(members, member);
    members.with_asks(local, |asks, positions| {
        let answer = ready!(waiting.poll(asks, cx));
        Poll::Ready(match answer {
            Ok(permits) => {
                let taken = positions.iter().copied().zip(permits);
                Ok(taken.filter_map(|(at, it)| Some((at, it?))).collect())
            }
            Err(refused) => Err((positions[refused.index], refused.denied)),
        })
    })
}

impl Drop for Decide {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Done(None)) {
            Stage::Waiting(here) => {
                let (members, waiting) = *here;
                let local = |member: &Member| is_local(&members, member);
                members.with_asks(local, |asks, _| waiting.cancel(asks));
            }
            // What stores grant after that is undone by itself.
            #[cfg(feature = "redis")]
            Stage::Stores(members, taken, _) => undo(&members, taken),
            Stage::Done(done) => {
                if let Some(Ok(hold)) = done {
                    hold.undo();
                }
            }
        }
    }
}

impl fmt::Debug for Decide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decide").finish_non_exhaustive()
    }
}
