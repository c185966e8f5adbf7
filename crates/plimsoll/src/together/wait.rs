//! Waiting for several limiters, while holding permits of none.
//!
//! A request waits in the queue of the limiter that refused it. When that has room, the request tries to take from all;
//! if another refuses, the request keeps its place and joins that queue too, behind requests that came before it and
//! ahead of those that came later. At the head of a queue, room is reserved for it if it is the oldest there that waits
//! for several limiters. All gates agree on which is the oldest, so that one gets all it needs, and is not overtaken
//! forever.
//!
//! Limiters that are not gates are waited for in their own way, when all gates have room; there is no guarantee for
//! them. Limiters of this workspace that follow a name are resolved to gates before the wait.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::attempt::{Moments, Taken};
use super::left::{Left, Progress};
use super::refusal::look;
use super::transaction::{Transaction, TransactionOutcome};
use super::{List, Set, refuse, too_large};
use crate::joint::{self, Joint};
use crate::queue::{Age, Since, Ticket};
use crate::unwind::isolated;
use crate::{Acquire, Clock, Denied, Moment, Reason};

/// The number of tries in a row before it yields to other tasks.
const TRIES: usize = 16;

/// A request that waits for several limiters. The list is passed to each step, so that each step may borrow it again.
pub(crate) struct Wait {
    age: Age,
    slots: Slots,
    /// The member that is waited for and is not a gate.
    other: Option<(usize, Acquire<'static>)>,
}

/// The state of a wait for one limiter.
#[derive(Default)]
struct Slot {
    /// The start of the wait, on its clock.
    since: Moment,
    /// The deadline of the wait, on its clock.
    deadline: Moment,
    /// The bound of its queue when the wait began.
    room: u64,
    place: Option<Place>,
}

/// A place in the queue of a gate, released when it is dropped.
struct Place {
    gate: Arc<dyn Joint>,
    ticket: Ticket,
    cost: u64,
    taken: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.taken {
            self.gate.leave_place(self.ticket, self.cost);
        }
    }
}

/// Up to six are stored inline.
struct Slots {
    few: [Slot; 6],
    more: Vec<Slot>,
}

impl Slots {
    fn new(count: usize) -> Self {
        let few = <[Slot; 6]>::default();
        let more = (few.len()..count).map(|_| Slot::default()).collect();
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

impl Wait {
    /// Begins to wait, for a request that was refused by `refuser`.
    pub(crate) fn start<'a>(list: impl List<'a>, refuser: usize) -> Result<Self, Denied> {
        Self::start_as(list, refuser, next_age(), |_| None)
    }

    /// Continues the wait in another list, where `progress` returns the progress of each member's wait. No queue
    /// refuses it any more.
    pub(crate) fn continue_in<'a>(
        &self,
        list: impl List<'a>,
        refuser: usize,
        progress: impl Fn(usize) -> Option<Progress>,
    ) -> Result<Self, Denied> {
        Self::start_as(list, refuser, self.age, progress)
    }

    fn start_as<'a>(
        list: impl List<'a>,
        refuser: usize,
        age: Age,
        progress: impl Fn(usize) -> Option<Progress>,
    ) -> Result<Self, Denied> {
        if let Some((index, denied)) = too_large(list) {
            return Err(refuse(list, index, denied));
        }
        let moments = Moments::now(list, Clock::precise_now);
        let first = (0..list.local()).find(|&index| list.cost(index).is_some());
        let left = Left::at(list.like(), moments.of(first.unwrap_or(0)));
        let left = |index| match progress(index) {
            Some(progress) => progress.left,
            None => list.own_left(index, moments.of(index)).unwrap_or(left),
        };
        refuse_in_vain(list, refuser, left)?;
        let mut slots = Slots::new(list.local());
        for index in 0..list.local() {
            let now = moments.of(index);
            let bound = || list.member(index).gate()?.queue_bound();
            let kept = progress(index).is_some() || list.like().is_kept();
            *slots.get_mut(index) = Slot {
                since: progress(index).map_or(now, |progress| progress.began(now)),
                deadline: left(index).deadline(now),
                room: if kept {
                    Since::KEPT
                } else {
                    bound().unwrap_or(0)
                },
                place: None,
            };
        }
        let mut wait = Self {
            age,
            slots,
            other: None,
        };
        wait.wait_for(list, refuser)?;
        Ok(wait)
    }

    /// The time it has waited, on the clock of one member.
    pub(crate) fn waited<'a>(&self, list: impl List<'a>, index: usize) -> Duration {
        let now = list.member(index).clock().precise_now();
        now.since(self.slots.get(index).since)
    }

    /// The progress of the wait for one member.
    pub(crate) fn progress<'a>(&self, list: impl List<'a>, index: usize) -> Progress {
        let slot = self.slots.get(index);
        let now = list.member(index).clock().precise_now();
        let place = slot.place.as_ref();
        // The queue that it leaves may have bounded the wait, and the bound stays.
        let bound = place.and_then(|place| place.gate.deadline_of(place.ticket));
        let deadline = bound.map_or(slot.deadline, |bound| bound.min(slot.deadline));
        Progress {
            waited: now.since(slot.since),
            left: Left::until(deadline, now),
        }
    }

    pub(crate) fn poll<'a>(
        &mut self,
        list: impl List<'a>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Taken<'a>, (usize, Denied)>> {
        for _ in 0..TRIES {
            let mut waits = !self.look(list, None)?;
            if !waits {
                let mut taken = Taken {
                    moments: Moments::now(list, Clock::precise_now),
                    ..Taken::default()
                };
                if let Some((index, acquire)) = &mut self.other {
                    match Pin::new(acquire).poll(cx) {
                        Poll::Ready(Ok(permit)) => taken.held.push(*index, permit),
                        Poll::Ready(Err(denied)) => {
                            return Poll::Ready(Err((*index, refuse(list, *index, denied))));
                        }
                        Poll::Pending => waits = true,
                    }
                }
                if !waits {
                    self.other = None;
                    match isolated(|| self.take(list, &mut taken)) {
                        Ok(Ok(())) => return Poll::Ready(Ok(taken)),
                        Err(panic) => {
                            taken.held.undo(list);
                            resume_unwind(panic)
                        }
                        Ok(Err(refuser)) => {
                            taken.held.undo(list);
                            let joined = self.wait_for(list, refuser);
                            joined.map_err(|denied| (refuser, denied))?;
                            continue;
                        }
                    }
                }
            }
            // A member that is not a gate has just been polled, and has stored the waker.
            if !self.look(list, Some(cx.waker()))? || self.other.is_some() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Joins the queue of a member that refused, unless it has a place there.
    fn wait_for<'a>(&mut self, list: impl List<'a>, refuser: usize) -> Result<(), Denied> {
        let member = list.member(refuser);
        let slot = self.slots.get_mut(refuser);
        let Some(demand) = list.demand(refuser).filter(|_| slot.place.is_none()) else {
            return Ok(());
        };
        let Some(gate) = member.gate_to_wait() else {
            let demand = match list.sheds(refuser) {
                true => demand.at_once(),
                false if slot.room == Since::KEPT => demand.kept_until(Some(slot.deadline)),
                false if slot.deadline.is_known() => demand.until(slot.deadline),
                false => demand,
            };
            self.other = Some((refuser, member.limiter().acquire(demand)));
            return Ok(());
        };
        if list.sheds(refuser) {
            // If there is room by now it is asked again.
            return gate
                .note(demand)
                .map_err(|denied| refuse(list, refuser, denied));
        }
        let since = Since {
            joined: slot.since,
            age: self.age,
            room: slot.room,
        };
        match gate.join(demand, slot.deadline, since) {
            Ok(ticket) => {
                slot.place = ticket.map(|ticket| Place {
                    gate,
                    ticket,
                    cost: demand.cost,
                    taken: false,
                });
                Ok(())
            }
            Err(denied) => Err(refuse(list, refuser, denied)),
        }
    }

    /// Whether there is room at all of its places; or the reason for which one of them was lost.
    fn look<'a>(
        &self,
        list: impl List<'a>,
        waker: Option<&Waker>,
    ) -> Result<bool, (usize, Denied)> {
        let mut all = true;
        let mut lost = None;
        for index in 0..list.local() {
            let Some(place) = &self.slots.get(index).place else {
                continue;
            };
            match place.gate.place(place.ticket, waker) {
                joint::Place::Offered => {}
                joint::Place::Waiting => all = false,
                // A place with room is not the cause.
                joint::Place::Lost { reason, offered } => {
                    if lost.is_none_or(|(_, _, _, blameless)| blameless && !offered) {
                        lost = Some((index, &place.gate, reason, offered));
                    }
                }
            }
        }
        match lost {
            Some((index, gate, reason, _)) => Err((index, refuse(list, index, gate.lost(reason)))),
            None => Ok(all),
        }
    }

    /// Takes from all members, as the owner of its places; or returns the member that refused.
    fn take<'a>(&mut self, list: impl List<'a>, taken: &mut Taken<'a>) -> Result<(), usize> {
        let mut gates = Set::default();
        for index in 0..list.local() {
            let member = list.member(index);
            let Some(demand) = list.demand(index) else {
                continue;
            };
            if member.gate().is_some() {
                gates.insert(index);
            } else if !taken.held.contains(index) {
                match member.limiter().attempt(demand) {
                    Ok(permit) => taken.held.push(index, permit),
                    Err(_) => return Err(index),
                }
            }
        }
        let slots = &self.slots;
        let places = |index| slots.get(index).place.as_ref().map(|place| place.ticket);
        let transaction = Transaction::new(list, &gates, &taken.moments, false).from(&places);
        match transaction.run() {
            TransactionOutcome::Taken(stamps) => {
                taken.stamps = stamps;
                for index in 0..list.local() {
                    if let Some(place) = &mut self.slots.get_mut(index).place {
                        place.taken = true;
                    }
                }
                Ok(())
            }
            TransactionOutcome::Refused(index, _) => Err(index),
        }
    }
}

/// Refuses demands that can never be granted, or not in time, instead of letting them wait.
fn refuse_in_vain<'a>(
    list: impl List<'a>,
    refuser: usize,
    left: impl Fn(usize) -> Left,
) -> Result<(), Denied> {
    for index in 0..list.local() {
        let member = list.member(index);
        let Some(demand) = list.demand(index) else {
            continue;
        };
        let Err(denied) = look(member, demand) else {
            continue;
        };
        // Without a queue the refusal is not about time.
        let queued = || member.gate().and_then(Joint::queue_bound).is_some();
        let waits = !list.sheds(index) && queued();
        // A rule may depend on a measurement, which changes.
        let changes = matches!(denied.reason(), Reason::Saturated | Reason::Unavailable);
        if !(denied.reason().is_passing() || waits && changes) {
            return Err(refuse(list, index, denied));
        }
        if waits && left(index).is_less_than(denied.retry_after()) {
            return Err(refuse(list, index, late(&denied)));
        }
    }
    if left(refuser) == Left::Nothing {
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

/// Only demands on several limiters have an age.
fn next_age() -> Age {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Age(NEXT.fetch_add(1, Ordering::Relaxed))
}
