//! Waiting for several limiters, holding nothing of any.
//!
//! One who waits stands in the queue of the limiter that refused it. When it is told that there is room, it tries to take from
//! all; if another refuses, it keeps its place and joins that queue too, where it stands behind those who came before it
//! and before those who came later. Where it has reached the front, room is kept free for it if it is the oldest of
//! those who wait for several there. All gates agree on who is the oldest, so that one gets all it needs, and nobody who
//! comes later passes for ever.
//!
//! Limiters that are no gates are waited for in their own way, when all gates have room; nothing is promised there.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::attempt::{Moments, Taken};
use super::refusal::look;
use super::transaction::{Transaction, Verdict};
use super::{List, Set, refuse, too_large};
use crate::demand::Patience;
use crate::joint::Place;
use crate::queue::{Age, Since, Ticket};
use crate::unwind::isolated;
use crate::{Acquire, Clock, Demand, Denied, Moment, Reason};

/// So often in a row it tries before others get a chance to run.
const TRIES: usize = 16;

/// One who waits for several.
pub(crate) struct Wait<'a, L: List<'a>> {
    list: L,
    age: Age,
    slots: Slots,
    /// The one that is waited for and is no gate.
    other: Option<(usize, Acquire<'a>)>,
}

/// What one who waits has to do with one limiter.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// When the wait began, on its clock.
    since: Moment,
    /// When the wait must be over, on its clock.
    deadline: Moment,
    ticket: Option<Ticket>,
}

/// Up to six are kept in place.
struct Slots {
    few: [Slot; 6],
    more: Vec<Slot>,
}

impl Slots {
    fn new(count: usize) -> Self {
        let few = [Slot::default(); 6];
        let more = vec![Slot::default(); count.saturating_sub(few.len())];
        Self { few, more }
    }

    fn get(&self, index: usize) -> &Slot {
        match index.checked_sub(self.few.len()) {
            None => &self.few[index],
            Some(index) => &self.more[index],
        }
    }

    fn get_mut(&mut self, index: usize) -> &mut Slot {
        match index.checked_sub(self.few.len()) {
            None => &mut self.few[index],
            Some(index) => &mut self.more[index],
        }
    }
}

/// The time a demand has left when its wait begins: the same on every clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Unlimited,
    Span(Duration),
    /// It is over.
    Nothing,
}

impl Left {
    /// At a moment of the clock to which the demand refers.
    pub(crate) fn at(demand: Demand, now: Moment) -> Self {
        match demand.patience {
            Patience::Unlimited => Self::Unlimited,
            Patience::AtOnce => Self::Span(Duration::ZERO),
            Patience::Within(span) => Self::Span(span),
            Patience::Until(deadline) if deadline < now => Self::Nothing,
            Patience::Until(deadline) if deadline.is_known() => Self::Span(deadline.since(now)),
            Patience::Until(_) => Self::Unlimited,
        }
    }

    /// When it is over, on a clock that shows `now`.
    pub(crate) fn deadline(self, now: Moment) -> Moment {
        match self {
            Self::Unlimited => Moment::NEVER,
            Self::Span(span) => now.plus(span),
            Self::Nothing => now,
        }
    }

    /// The same demand, with the deadline as a moment of a clock that shows `now`.
    pub(crate) fn of(self, demand: Demand, now: Moment) -> Demand {
        match self {
            Self::Unlimited => Demand {
                patience: Patience::Unlimited,
                ..demand
            },
            _ => demand.until(self.deadline(now)),
        }
    }

    fn is_less_than(self, wait: Option<Duration>) -> bool {
        match self {
            Self::Unlimited => false,
            Self::Span(span) => wait.is_some_and(|wait| wait > span),
            Self::Nothing => true,
        }
    }
}

impl<'a, L: List<'a>> Wait<'a, L> {
    /// Begins to wait, for one that was refused by `refuser`.
    pub(crate) fn start(list: L, refuser: usize) -> Result<Self, Denied> {
        if let Some((index, denied)) = too_large(list) {
            return Err(refuse(list, index, denied));
        }
        let moments = Moments::now(list, Clock::precise_now);
        let first = (0..list.local()).find(|&index| list.cost(index).is_some());
        let left = Left::at(list.like(), moments.of(first.unwrap_or(0)));
        refuse_in_vain(list, refuser, left)?;
        let mut slots = Slots::new(list.local());
        for index in 0..list.local() {
            let since = moments.of(index);
            *slots.get_mut(index) = Slot {
                since,
                deadline: left.deadline(since),
                ticket: None,
            };
        }
        let mut wait = Self {
            list,
            age: next_age(),
            slots,
            other: None,
        };
        wait.wait_for(refuser)?;
        Ok(wait)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Taken<'a>, Denied>> {
        for _ in 0..TRIES {
            let mut waits = !self.look(None)?;
            if !waits {
                let mut taken = Taken {
                    moments: Moments::now(self.list, Clock::precise_now),
                    ..Taken::default()
                };
                if let Some((index, acquire)) = &mut self.other {
                    match Pin::new(acquire).poll(cx) {
                        Poll::Ready(Ok(permit)) => taken.held.push(*index, permit),
                        Poll::Ready(Err(denied)) => {
                            return Poll::Ready(Err(refuse(self.list, *index, denied)));
                        }
                        Poll::Pending => waits = true,
                    }
                }
                if !waits {
                    self.other = None;
                    match isolated(|| self.take(&mut taken)) {
                        Ok(Ok(())) => return Poll::Ready(Ok(taken)),
                        Err(panic) => {
                            taken.held.undo(self.list);
                            resume_unwind(panic)
                        }
                        Ok(Err(refuser)) => {
                            taken.held.undo(self.list);
                            self.wait_for(refuser)?;
                            continue;
                        }
                    }
                }
            }
            // One that is no gate has just been looked at, and wakes by itself.
            if !self.look(Some(cx.waker()))? || self.other.is_some() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Joins the queue of one that refused, unless it has a place there.
    fn wait_for(&mut self, refuser: usize) -> Result<(), Denied> {
        let member = self.list.member(refuser);
        let slot = self.slots.get_mut(refuser);
        let Some(demand) = self.list.demand(refuser).filter(|_| slot.ticket.is_none()) else {
            return Ok(());
        };
        let Some(gate) = member.gate else {
            let demand = if slot.deadline.is_known() {
                demand.until(slot.deadline)
            } else {
                demand
            };
            self.other = Some((refuser, member.limiter.acquire(demand)));
            return Ok(());
        };
        let since = Since {
            joined: slot.since,
            age: self.age,
        };
        match gate.join(demand, slot.deadline, since) {
            Ok(ticket) => {
                slot.ticket = ticket;
                Ok(())
            }
            Err(denied) => Err(refuse(self.list, refuser, denied)),
        }
    }

    /// Whether there is room at every place it has; or why one of them was lost.
    fn look(&self, waker: Option<&Waker>) -> Result<bool, Denied> {
        let mut all = true;
        let mut lost = None;
        for index in 0..self.list.local() {
            let gate = self.list.member(index).gate;
            let (Some(gate), Some(ticket)) = (gate, self.slots.get(index).ticket) else {
                continue;
            };
            match gate.place(ticket, waker) {
                Place::Offered => {}
                Place::Waiting => all = false,
                // One at which there was room is not the one to blame.
                Place::Lost { reason, offered } => {
                    if lost.is_none_or(|(_, _, blameless)| blameless && !offered) {
                        lost = Some((index, reason, offered));
                    }
                }
            }
        }
        match lost {
            Some((index, reason, _)) => Err(self.refusal(index, reason)),
            None => Ok(all),
        }
    }

    #[cold]
    fn refusal(&self, index: usize, reason: Reason) -> Denied {
        let denied = match self.list.member(index).gate {
            Some(gate) => gate.lost(reason),
            None => Denied::new(reason),
        };
        refuse(self.list, index, denied)
    }

    /// Takes from all, as the owner of its places; or says who refused.
    fn take(&mut self, taken: &mut Taken<'a>) -> Result<(), usize> {
        let list = self.list;
        let mut gates = Set::default();
        for index in 0..list.local() {
            let member = list.member(index);
            let Some(demand) = list.demand(index) else {
                continue;
            };
            if member.gate.is_some() {
                gates.insert(index);
            } else if !taken.held.contains(index) {
                match member.limiter.attempt(demand) {
                    Ok(permit) => taken.held.push(index, permit),
                    Err(_) => return Err(index),
                }
            }
        }
        let slots = &self.slots;
        let places = |index| slots.get(index).ticket;
        let transaction = Transaction::new(list, &gates, &taken.moments, false).from(&places);
        match transaction.run() {
            Verdict::Taken(stamps) => {
                taken.stamps = stamps;
                for index in 0..list.local() {
                    self.slots.get_mut(index).ticket = None;
                }
                Ok(())
            }
            Verdict::Refused(index, _) => Err(index),
        }
    }
}

impl<'a, L: List<'a>> Drop for Wait<'a, L> {
    fn drop(&mut self) {
        for index in 0..self.list.local() {
            if let Some(ticket) = self.slots.get_mut(index).ticket.take()
                && let Some(gate) = self.list.member(index).gate
            {
                let cost = self.list.demand(index).map_or(0, Demand::cost);
                gate.leave_place(ticket, cost);
            }
        }
    }
}

/// What can never be granted, or not in time, is not waited for.
fn refuse_in_vain<'a>(list: impl List<'a>, refuser: usize, left: Left) -> Result<(), Denied> {
    for index in 0..list.local() {
        let member = list.member(index);
        let Some(demand) = list.demand(index) else {
            continue;
        };
        let Err(denied) = look(member, demand) else {
            continue;
        };
        if !denied.reason().is_passing() {
            return Err(refuse(list, index, denied));
        }
        // Where nobody waits it is not time that is missing.
        let waits = member.gate.is_some_and(|gate| gate.has_queue());
        if waits && left.is_less_than(denied.retry_after()) {
            return Err(refuse(list, index, late(&denied)));
        }
    }
    if left == Left::Nothing {
        let denied = Denied::new(Reason::TimedOut);
        return Err(refuse(list, refuser, denied));
    }
    Ok(())
}

fn late(denied: &Denied) -> Denied {
    let late = Denied::new(Reason::TimedOut)
        .with_limit(denied.limit(), denied.remaining())
        .with_retry_after(denied.retry_after());
    match denied.limiter() {
        Some(name) => late.with_limiter(name),
        None => late,
    }
}

/// Drawn only by those who wait for several.
fn next_age() -> Age {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Age(NEXT.fetch_add(1, Ordering::Relaxed))
}
