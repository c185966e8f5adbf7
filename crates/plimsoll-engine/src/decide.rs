//! The slow path of a decision: all members grant at one moment, or none does. Members may have queues or be in stores.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use plimsoll::together::{Ask, Permits, Waiting};
use plimsoll::{Denied, Permit};

use crate::admit::{admitted, attempt};
#[cfg(feature = "redis")]
use crate::admit::{charged, shadowed};
use crate::decision::{Hold, Refusal};
use crate::handle::{Handle, blocked};
use crate::members::Members;
#[cfg(feature = "redis")]
use crate::report::report_admitted;
use crate::report::report_refused;
#[cfg(feature = "redis")]
use crate::state::StoreStandings;
use crate::state::{Denials, Member};
#[cfg(feature = "redis")]
use crate::stores::{self, StoreDecision, StoreFuture};

/// Decides now, without waiting. Limits in stores answer from what this process knows.
#[inline]
pub(crate) fn try_decide(members: Members) -> Result<Hold, Refusal> {
    attempt(members).or_else(|mut members| {
        if let Some(index) = blocked_at(&members) {
            return Err(refuse(members, index, &blocked()));
        }
        let all = |members: &Members, member: &Member| members.is_asked(member);
        match take(&mut members, all) {
            Ok(()) => Ok(admitted(members)),
            Err((index, denied)) => Err(refuse(members, index, &denied)),
        }
    })
}

/// Takes for all selected members at one moment, with [`Ask::try_all`].
fn take(
    members: &mut Members,
    select: fn(&Members, &Member) -> bool,
) -> Result<(), (usize, Denied)> {
    let select = |member: &Member| select(members, member);
    let taken: Taken = members.with_asks(select, |asks, positions| {
        let mut permits = Permits::new();
        Ask::try_all(asks, &mut permits)
            .map_err(|refused| (positions[refused.index], refused.denied))?;
        let permits = permits.into_each().map(Permit::into_owned);
        Ok(positions.iter().copied().zip(permits).collect())
    })?;
    store_permits(members, taken);
    Ok(())
}

/// The permits of members, by their positions.
type Taken = Vec<(usize, Permit<'static>)>;

pub(crate) fn store_permits(members: &mut Members, taken: Taken) {
    for (index, permit) in taken {
        members.store_permit(index, permit);
    }
}

pub(crate) fn blocked_at(members: &Members) -> Option<usize> {
    let is_blocked = |member: &Member| {
        matches!(members.handle(member), Handle::Blocked) && members.is_asked(member)
    };
    members.list.iter().position(is_blocked)
}

/// The refusal of a decision, with the answer that every other member would give on its own.
#[cold]
pub(crate) fn refuse(members: Members, first: usize, denied: &Denied) -> Refusal {
    let denial = |(index, member): (usize, &Member)| {
        let is_first = index == first;
        if members.handle(member).is_remote() {
            return is_first.then(|| denied.clone());
        }
        let alone = members.estimate(member).err();
        // `denied` is the refusal of the whole decision: the answer of this member alone may differ.
        match alone {
            Some(alone) if !is_first || alone.reason() == denied.reason() => Some(alone),
            None if !is_first => None,
            _ => Some(denied.clone()),
        }
    };
    let denials: Denials = members.list.iter().enumerate().map(denial).collect();
    let refusal = Refusal::new(members, denials, first);
    report_refused(&refusal);
    refusal
}

/// The answer of [`try_decide`]. Takes nothing, counts nothing and creates no key.
pub(crate) fn peek(mut members: Members) -> Result<Hold, Refusal> {
    let mut denials = std::mem::take(&mut members.denials);
    let look = |member: &Member| {
        if members.handle(member).is_remote() {
            return None;
        }
        members.estimate(member).err()
    };
    denials.extend(members.list.iter().map(look));
    let refuses =
        |(index, member): &(usize, &Member)| denials[*index].is_some() && members.is_asked(member);
    if let Some((first, _)) = members.list.iter().enumerate().find(refuses) {
        return Err(Refusal::new(members, denials, first));
    }
    members.denials = denials;
    Ok(Hold::new(members))
}

/// The future of [`Limits::decide`](crate::Limits::decide): a decision that may wait in queues and for stores.
///
/// It resolves to a [`Hold`] if all limits grant, and otherwise to a [`Refusal`], in which nothing was taken. Limits in memory
/// grant at one moment, or none does; limits in stores are asked after them.
///
/// While it waits in queues it holds no permit. Dropping it leaves the queues; if it was waiting for a store, it undoes the
/// grants of limits in memory.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let limits = Limits::from_yaml("limits: { slots: { concurrency: 1, queue: { bound: 10 } } }")?;
/// let asks = [Ask::new("slots")];
/// let first = limits.decide(&asks, 1).await.unwrap();
///
/// let second = limits.decide(&asks, 1); // waits for the slot
/// drop(first);
/// assert!(second.await.is_ok());
/// # Ok::<(), plimsoll_engine::ConfigError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// May panic if it is polled again after it has resolved.
///
/// The time-outs of its demand and of the queues of its limits bound the wait:
///
/// ```
/// use plimsoll::Demand;
/// use plimsoll_engine::{Ask, Limits};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let limits = Limits::from_yaml("limits: { mail: { rate: 1/h, burst: 1, queue: { bound: 10 } } }")?;
/// let like = Demand::ONE.within(Duration::from_secs(1));
/// let _first = limits.decide(&[Ask::new("mail")], like).await.unwrap();
/// // A rate knows that the next grant is later than that, and refuses at once.
/// assert!(limits.decide(&[Ask::new("mail")], like).await.is_err());
/// # Ok::<(), plimsoll_engine::ConfigError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Decide {
    stage: Stage,
}

enum Stage {
    Done(Option<Result<Hold, Refusal>>),
    Waiting(Box<(Members, Waiting)>),
    /// Everything in memory is granted, and stores are asked.
    #[cfg(feature = "redis")]
    Stores(Members, StoreFuture),
}

/// Whether a member takes part in the decision in memory: it is enforced, and not in a store.
pub(crate) fn is_local(members: &Members, member: &Member) -> bool {
    members.is_asked(member) && !members.handle(member).is_remote()
}

impl Decide {
    #[inline]
    pub(crate) fn start(members: Members) -> Self {
        match attempt(members) {
            Ok(hold) => Self::ready(Ok(hold)),
            Err(members) => Self::open(members),
        }
    }

    /// Starts the slow path, after the [fast path](attempt) has admitted nothing.
    pub(crate) fn open(mut members: Members) -> Self {
        if let Some(index) = blocked_at(&members) {
            return Self::refused(members, index, &blocked());
        }
        members.fix_deadline();
        let local = |member: &Member| is_local(&members, member);
        let may_wait = |member: &Member| local(member) && members.handle(member).has_queue();
        if !members.list.iter().any(may_wait) {
            return match take(&mut members, is_local) {
                Ok(()) => Self::after_memory(members),
                Err((index, denied)) => Self::refused(members, index, &denied),
            };
        }
        let waiting = members.with_asks(local, |asks, positions| {
            let mut permits = Permits::new();
            if Ask::attempt_all(asks, &mut permits) {
                let permits = permits.into_each().map(Permit::into_owned);
                return Ok(Ok(positions.iter().copied().zip(permits).collect()));
            }
            let waiting = Waiting::start(asks);
            waiting
                .map(Err)
                .map_err(|refused| (positions[refused.index], refused.denied))
        });
        match waiting {
            Ok(Ok(taken)) => {
                store_permits(&mut members, taken);
                Self::after_memory(members)
            }
            Ok(Err(waiting)) => Self {
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

    /// Goes on with stores, when all enforced members in memory have granted.
    fn after_memory(members: Members) -> Self {
        #[cfg(feature = "redis")]
        if stores::has_any(&members) {
            let asking = stores::ask(&members, members.like);
            return Self {
                stage: Stage::Stores(members, asking),
            };
        }
        Self::ready(Ok(admitted(members)))
    }

    /// Returns the result, if the decision did not have to wait. The future must not be polled after this method has
    /// returned a result.
    #[doc(hidden)]
    pub fn now(&mut self) -> Option<Result<Hold, Refusal>> {
        match &mut self.stage {
            Stage::Done(done) => done.take(),
            _ => None,
        }
    }
}

/// The result of a decision whose stores have answered.
#[cfg(feature = "redis")]
fn answered(mut members: Members, mut decision: StoreDecision) -> Result<Hold, Refusal> {
    match decision.permits.take() {
        Some(permits) => {
            store_permits(&mut members, permits);
            let denials = decision.denials(members.list.len());
            Ok(admitted_by_stores(members, denials, decision.standings()))
        }
        None => Err(refused_by_stores(members, &decision)),
    }
}

/// The hold of a decision that stores have admitted, with the denials of members in shadow mode and the reported standings.
#[cfg(feature = "redis")]
pub(crate) fn admitted_by_stores(
    members: Members,
    denials: Denials,
    standings: StoreStandings,
) -> Hold {
    let mut hold = charged(members);
    for (index, denied) in denials.into_iter().enumerate() {
        if let Some(denied) = denied {
            shadowed(&mut hold, index, Err(denied));
        }
    }
    hold.members_mut().store_standings = standings;
    report_admitted(&hold);
    hold
}

/// The refusal of a decision by a store. Grants in memory are undone.
#[cfg(feature = "redis")]
pub(crate) fn refused_by_stores(mut members: Members, decision: &StoreDecision) -> Refusal {
    members.undo();
    let mut denials = decision.denials(members.list.len());
    for (index, member) in members.list.iter().enumerate() {
        if !members.handle(member).is_remote() {
            denials[index] = members.estimate(member).err();
        }
    }
    let first = decision.first_refuser().unwrap_or(0);
    let refusal = Refusal::new(members, denials, first)
        .with_store_standings(decision.standings(), decision.compensated);
    report_refused(&refusal);
    refusal
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
                    let (mut members, _) = *here;
                    *self = match answer {
                        Ok(taken) => {
                            store_permits(&mut members, taken);
                            Self::after_memory(members)
                        }
                        Err((index, denied)) => Self::refused(members, index, &denied),
                    };
                }
                #[cfg(feature = "redis")]
                Stage::Stores(_, asking) => {
                    let decision = ready!(asking.as_mut().poll(cx));
                    let Stage::Stores(members, _) =
                        std::mem::replace(&mut self.stage, Stage::Done(None))
                    else {
                        unreachable!("it asks")
                    };
                    *self = Self::ready(answered(members, decision));
                }
            }
        }
    }
}

/// Polls the queues of all members in memory. Ready with the permits when all have granted.
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
            // The future of the stores undoes their grants when it is dropped.
            #[cfg(feature = "redis")]
            Stage::Stores(mut members, _) => members.undo(),
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
