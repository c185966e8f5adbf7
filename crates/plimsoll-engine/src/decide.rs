//! One decision over many limits: all grant, or none does.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use plimsoll::together::{Ask, Permits, Waiting};
use plimsoll::{Acquire, Denied, Permit};
use smallvec::SmallVec;

use crate::decision::{Denials, Hold, Refusal};
use crate::handle::{Handle, Subject, blocked};
use crate::members::{FEW, Member, Members};
use crate::seen::Beyond;

/// Takes now, or refuses. Limits in stores answer what is known in this process.
pub(crate) fn try_decide(members: Members) -> Result<Hold, Refusal> {
    if let Some(index) = blocked_at(&members) {
        return Err(refuse(members, index, &blocked()));
    }
    let taken = take(&members, |asks, permits| {
        Ask::try_all(asks, permits).map_err(|refused| (refused.index, refused.denied))
    });
    match taken {
        Ok(permits) => Ok(admitted(members, permits)),
        Err((index, denied)) => Err(refuse(members, index, &denied)),
    }
}

/// The permits of members, by their positions.
type Taken = SmallVec<[(usize, Permit<'static>); FEW]>;

/// Takes for all members that are asked in the way of `how`.
fn take<E>(
    members: &Members,
    how: impl for<'a> FnOnce(&[Ask<'a>], &mut Permits<'a>) -> Result<(), (usize, E)>,
) -> Result<Taken, (usize, E)> {
    members.with_asks(
        |member| members.is_asked(member),
        |asks, positions| {
            let mut permits = Permits::new();
            how(asks, &mut permits).map_err(|(index, why)| (positions[index], why))?;
            let permits = permits.into_each().map(Permit::into_owned);
            Ok(positions.iter().copied().zip(permits).collect())
        },
    )
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
    let members = refusal.members();
    if let Some(member) = refusal.binding().and_then(|at| members.list.get(at)) {
        let seen = &members.limit(member).seen;
        seen.refused(refusal.denied(), members.key(member));
    }
    refusal
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

enum Stage {
    Done(Option<Result<Hold, Refusal>>),
    Waiting(Members, Waiting),
    /// Everything is granted, and limits in shadow mode that are kept in stores are asked.
    Shadow {
        hold: Hold,
        next: usize,
        asking: Option<Acquire<'static>>,
    },
}

impl Decide {
    pub(crate) fn start(members: Members) -> Self {
        if let Some(index) = blocked_at(&members) {
            return Self::refused(members, index, &blocked());
        }
        let attempted = take(&members, |asks, permits| {
            match Ask::attempt_all(asks, permits) {
                true => Ok(()),
                false => Err((0, ())),
            }
        });
        if let Ok(taken) = attempted {
            return Self::after(admitted(members, taken));
        }
        let may_wait = |member: &Member| {
            let handle = members.handle(member);
            members.is_asked(member) && (handle.is_remote() || handle.has_queue())
        };
        if !members.list.iter().any(may_wait) {
            let stage = match try_decide(members) {
                Ok(hold) => return Self::after(hold),
                Err(refusal) => Stage::Done(Some(Err(refusal))),
            };
            return Self { stage };
        }
        let waiting = members.with_asks(
            |member| members.is_asked(member),
            |asks, positions| {
                Waiting::start(asks).map_err(|refused| (positions[refused.index], refused.denied))
            },
        );
        match waiting {
            Ok(waiting) => Self {
                stage: Stage::Waiting(members, waiting),
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

    /// Everything that is enforced is granted.
    fn after(hold: Hold) -> Self {
        let members = hold.members();
        let asks_store =
            |member: &Member| members.limit(member).shadow && members.handle(member).is_remote();
        let stage = match members.list.iter().position(asks_store) {
            None => Stage::Done(Some(Ok(hold))),
            Some(next) => Stage::Shadow {
                hold,
                next,
                asking: None,
            },
        };
        Self { stage }
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
                Stage::Waiting(members, waiting) => {
                    let answer = members.with_asks(
                        |member| members.is_asked(member),
                        |asks, positions| {
                            let answer = ready!(waiting.poll(asks, cx));
                            let position = |index: usize| positions[index];
                            Poll::Ready(match answer {
                                Ok(permits) => {
                                    let taken = positions.iter().copied().zip(permits);
                                    let taken = taken.filter_map(|(at, it)| Some((at, it?)));
                                    Ok(taken.collect::<Taken>())
                                }
                                Err(refused) => Err((position(refused.index), refused.denied)),
                            })
                        },
                    );
                    let answer = ready!(answer);
                    let Stage::Waiting(members, _) =
                        std::mem::replace(&mut self.stage, Stage::Done(None))
                    else {
                        unreachable!("it waits")
                    };
                    *self = match answer {
                        Ok(taken) => Self::after(admitted(members, taken)),
                        Err((index, denied)) => Self::refused(members, index, &denied),
                    };
                }
                Stage::Shadow { hold, next, asking } => {
                    let members = hold.members();
                    let member = &members.list[*next];
                    let demand = members.demand(member).at_once();
                    let acquire = asking.get_or_insert_with(|| match members.subject(member) {
                        Subject::One(limiter) => limiter.acquire_owned(demand),
                        Subject::Keyed(limiter, key) => {
                            plimsoll::PerKey::acquire_owned(limiter, key, demand)
                        }
                        Subject::Unlimited | Subject::Blocked => {
                            unreachable!("neither is in a store")
                        }
                    });
                    let answer = ready!(Pin::new(acquire).poll(cx));
                    shadowed(hold, *next, answer);
                    *asking = None;
                    let members = hold.members();
                    let asks_store = |member: &Member| {
                        members.limit(member).shadow && members.handle(member).is_remote()
                    };
                    let after = *next + 1;
                    match members.list[after..].iter().position(asks_store) {
                        Some(further) => *next = after + further,
                        None => {
                            let Stage::Shadow { hold, .. } =
                                std::mem::replace(&mut self.stage, Stage::Done(None))
                            else {
                                unreachable!("it asks")
                            };
                            self.stage = Stage::Done(Some(Ok(hold)));
                        }
                    }
                }
            }
        }
    }
}

impl Drop for Decide {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Done(None)) {
            Stage::Waiting(members, waiting) => members.with_asks(
                |member| members.is_asked(member),
                |asks, _| waiting.cancel(asks),
            ),
            Stage::Shadow { hold, .. } => hold.undo(),
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
