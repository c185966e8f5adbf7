//! Reserving: taking ahead of time, or holding a place in the queue.
//!
//! # Refunds
//!
//! Later bookings received their moments on the assumption that the earlier ones keep theirs.
//! Refunding a cancelled booking completely would let two bursts meet. So it refunds only the part that no later booking
//! was delayed by: its cost less the costs that were booked after it and had to wait, up to
//! the latest booking that is still open.
//!
//! A booking that is undone, as if it had never been made, refunds the rest too, as soon as the bookings behind it are gone.

use std::collections::VecDeque;

use super::asking::is_for_want_of_room;
use super::locked::Turn;
use super::word::Core;
use crate::acquire::{Cancel, Owner, Place};
use crate::demand::Patience;
use crate::events::EventKind;
use crate::queue::{Evicted, Since, Status};
use crate::reservation::{Booked, Hold, Reservation};
use crate::stamp::Stamp;
use crate::wakeups::BATCH;
use crate::{Demand, Denied, Moment, Outcome, Priority, Reason, Refusal, Rule};

impl<R: Rule> Core<R> {
    pub(super) fn reserve<'a>(
        &self,
        owner: Owner<'a>,
        demand: Demand,
    ) -> Result<Reservation<'a>, Denied> {
        let now = self.clock.precise_now();
        let held = self.enter(now, |turn| {
            let made_at = turn.now;
            let deadline = match (demand.patience, turn.rule.longest_wait()) {
                (Patience::Unlimited, Some(longest)) => made_at.plus(longest),
                (patience, _) => patience.deadline(made_at),
            };
            let held = self.hold(owner, turn, demand, deadline);
            let (hold, ready_at) = held.map_err(|refusal| self.refused(turn, demand, refusal))?;
            Ok(Reservation::new(hold, made_at, ready_at))
        });
        if held.is_err() {
            self.tick_if_due(now);
        }
        held
    }

    /// Takes now, ahead of time, or holds a place: whichever this rule can do.
    fn hold<'a>(
        &self,
        owner: Owner<'a>,
        turn: &mut Turn<'_, R>,
        demand: Demand,
        deadline: Moment,
    ) -> Result<(Hold<'a>, Moment), Refusal> {
        let now = turn.now;
        // A booking cannot take before demands that wait.
        if !turn.inside.closed
            && (1..=turn.rule.limit()).contains(&demand.cost)
            && turn.inside.waiters.is_empty()
            && let Some((ahead, ready_at)) = turn.rule.book(turn.state, now, demand.cost)
        {
            if ready_at > deadline {
                let refusal = turn.rule.peek(turn.state, now, demand.cost).err();
                let reason = refusal.map_or(Reason::Exhausted, |refusal| refusal.reason);
                return Err(Refusal::until(ready_at).with_reason(reason));
            }
            *turn.state = ahead;
            turn.inside.counts.granted += 1;
            turn.emit(EventKind::Processing {
                priority: demand.priority,
            });
            let id = turn.inside.bookings.add(demand.cost, now, ready_at);
            let booked = Booked::new(owner, id, demand);
            return Ok((Hold::Booked(booked), ready_at));
        }
        let taken = |owner: Owner<'a>, taken: Stamp| {
            let permit = owner.clone().permit(taken.grant(demand), taken.era);
            (Hold::Taken(owner, Some(permit)), taken.at)
        };
        let refusal = match turn.take(demand) {
            Ok(()) => return Ok(taken(owner, turn.stamp())),
            Err(refusal) if !is_for_want_of_room(refusal.reason) => return Err(refusal),
            Err(refusal) => refusal,
        };
        let mut ready_at = Moment::NEVER;
        let mut waiting = (demand, Since::of(demand, now));
        if !R::RETURNS_PERMITS {
            ready_at = turn.turn_of(demand, Evicted::NOBODY);
            if ready_at > deadline {
                return Err(Refusal::until(ready_at).with_reason(refusal.reason));
            }
            // No bound refuses it, and it waits until its time.
            waiting.0.patience = Patience::Unlimited;
            waiting.1.room = Since::KEPT;
        }
        let ticket = turn.enqueue(waiting.0, refusal, waiting.1)?;
        if let Some(Status::Granted(at)) = turn.inside.waiters.status(ticket) {
            turn.inside.waiters.free(ticket);
            return Ok(taken(owner, at));
        }
        let place = Place::reserved(owner, ticket, demand);
        Ok((Hold::Queued(place), ready_at))
    }
}

impl<R: Rule> Turn<'_, R> {
    /// Cancels what was taken ahead of time.
    pub(super) fn cancel(&mut self, booking: u64, priority: Priority, how: Cancel) {
        let (rule, now) = (self.rule, self.now);
        let Self { inside, state, .. } = self;
        let mut refunded = 0;
        let known = inside.bookings.cancel(booking, now, how, |refund: Refund| {
            rule.refund(state, now, refund.taken, refund.cost);
            refunded += refund.cost;
        });
        if known && how == Cancel::Undo {
            self.inside.counts.undone += 1;
            let demand = Demand::of(refunded).priority(priority);
            self.emit_processed(demand.granted(now), Outcome::Ignore);
        }
        if refunded > 0 {
            self.inside.forecast.forget();
            self.serve(BATCH);
        }
    }
}

#[derive(Default)]
pub(super) struct Bookings {
    entries: VecDeque<Booking>,
    next: u64,
    /// The number of bookings that are neither used nor cancelled.
    open: usize,
}

struct Booking {
    id: u64,
    cost: u128,
    ready_at: Moment,
    waits: bool,
    fate: Fate,
    /// The part still to be refunded when no later booking depends on it.
    owed: u128,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Used,
    Cancelled,
}

/// A refund: the cost to return, and the moment at which it counts as taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refund {
    pub(super) cost: u64,
    pub(super) taken: Moment,
}

/// When there are this many more entries than twice the open ones, entries without effect are removed.
const SPARE: usize = 16;

impl Bookings {
    pub(super) fn add(&mut self, cost: u64, now: Moment, ready_at: Moment) -> u64 {
        self.forget_past(now);
        let id = self.next;
        self.next += 1;
        self.open += 1;
        self.entries.push_back(Booking {
            id,
            cost: cost.into(),
            ready_at,
            waits: ready_at > now,
            fate: Fate::Open,
            owed: 0,
        });
        id
    }

    /// Settles a booking whose time has come. `false` if it is no longer known: a reset has refunded it.
    pub(super) fn redeem(&mut self, id: u64) -> bool {
        self.settle(id, Fate::Used).is_some()
    }

    /// Cancels a booking; calls `refund` with each part to return. `false` if it is no longer known.
    pub(super) fn cancel(
        &mut self,
        id: u64,
        now: Moment,
        how: Cancel,
        mut refund: impl FnMut(Refund),
    ) -> bool {
        let Some(at) = self.settle(id, Fate::Cancelled) else {
            return false;
        };
        let past = now > self.entries[at].ready_at;
        if how == Cancel::Undo {
            self.entries[at].owed = self.entries[at].cost;
        } else if !past {
            // Once: a part that is withheld now is never refunded.
            self.entries[at].owed = self.entries[at].cost;
            // Bookings behind it whose moment has passed count too: a booking that was made after an earlier one was
            // cancelled may be due first, and was still put behind this one.
            self.pay(at, now, Moment::ORIGIN, &mut refund);
            self.entries[at].owed = 0;
        }
        for at in (0..self.entries.len()).rev() {
            self.pay(at, now, now, &mut refund);
        }
        self.merge_cancelled(at);
        self.forget_past(now);
        true
    }

    /// Refunds what a booking is owed, less what was booked after it and is due from `since` on.
    fn pay(&mut self, at: usize, now: Moment, since: Moment, refund: &mut impl FnMut(Refund)) {
        let Booking {
            cost,
            owed,
            ready_at,
            ..
        } = self.entries[at];
        if owed == 0 {
            return;
        }
        let kept = self.behind(at, since).min(cost);
        let Ok(due @ 1..) = u64::try_from(owed.saturating_sub(kept)) else {
            return;
        };
        self.entries[at].owed = owed.min(kept);
        // Until its time it has only kept others from what was to come; from then on, without it, time might have brought
        // what found no room.
        refund(Refund {
            cost: due,
            taken: ready_at.min(now),
        });
    }

    /// The sum that was booked after an entry and had to wait, up to the latest booking that is still open, of what is
    /// due from `since` on.
    fn behind(&self, at: usize, since: Moment) -> u128 {
        let later = || {
            let later = self.entries.range(at + 1..);
            later.filter(|entry| entry.waits && entry.ready_at >= since)
        };
        let standing = later()
            .rfind(|entry| entry.fate != Fate::Cancelled)
            .map(|entry| entry.id);
        later()
            .take_while(|entry| standing.is_some_and(|last| entry.id <= last))
            .map(|entry| entry.cost)
            .sum()
    }

    /// Records the fate of an open booking, and returns its position.
    fn settle(&mut self, id: u64, fate: Fate) -> Option<usize> {
        let at = self
            .entries
            .binary_search_by_key(&id, |entry| entry.id)
            .ok()?;
        let entry = &mut self.entries[at];
        if entry.fate != Fate::Open {
            return None;
        }
        entry.fate = fate;
        self.open -= 1;
        Some(at)
    }

    /// Removes entries without further effect: those that are past, cannot be cancelled, and are owed nothing.
    fn forget_past(&mut self, now: Moment) {
        let is_over = |entry: &Booking| entry.ready_at < now && entry.fate != Fate::Open;
        while let Some(front) = self.entries.front()
            && is_over(front)
            && (front.owed == 0 || self.behind(0, now) == 0)
        {
            self.entries.pop_front();
        }
        // A booking that is never settled must not keep the entries behind it forever. These entries are needed only
        // for a booking that can still be cancelled in time.
        if self.entries.len() > 2 * self.open + SPARE {
            let mut in_time = false;
            self.entries.retain(|entry| {
                in_time |= entry.ready_at >= now && entry.fate == Fate::Open;
                in_time || !is_over(entry)
            });
        }
    }

    /// Merges two adjacent cancelled entries, because only their sum matters. So there are never many more entries than
    /// open bookings.
    fn merge_cancelled(&mut self, at: usize) {
        for first in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            let (Some(one), Some(next)) = (self.entries.get(first), self.entries.get(first + 1))
            else {
                continue;
            };
            let is_gone = |entry: &Booking| entry.fate == Fate::Cancelled && entry.owed == 0;
            if !is_gone(one) || !is_gone(next) || one.waits != next.waits {
                continue;
            }
            let (cost, ready_at) = (next.cost, next.ready_at);
            self.entries[first].cost += cost;
            self.entries[first].ready_at = ready_at;
            self.entries.remove(first + 1);
        }
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.open = 0;
    }
}
