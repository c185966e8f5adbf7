//! What was taken ahead of time, so that it can be given back.
//!
//! Those who booked later were told their moments on the assumption that the earlier ones keep theirs.
//! Giving everything back would let two bursts meet, so a cancelled booking gives back only what nobody
//! after it has already been put behind: its cost less what was booked after it and had to wait, up to
//! the latest of those that still stand.

use std::collections::VecDeque;

use crate::Moment;

#[derive(Default)]
pub(super) struct Bookings {
    entries: VecDeque<Booking>,
    next: u64,
}

struct Booking {
    id: u64,
    cost: u64,
    ready_at: Moment,
    waits: bool,
    stands: bool,
}

impl Bookings {
    pub(super) fn add(&mut self, cost: u32, now: Moment, ready_at: Moment) -> u64 {
        self.forget_past(now);
        let id = self.next;
        self.next += 1;
        self.entries.push_back(Booking {
            id,
            cost: u64::from(cost),
            ready_at,
            waits: ready_at > now,
            stands: true,
        });
        id
    }

    /// Cancels a booking; returns how much of it is to be given back.
    pub(super) fn cancel(&mut self, id: u64, now: Moment) -> u32 {
        self.forget_past(now);
        let Ok(at) = self.entries.binary_search_by_key(&id, |entry| entry.id) else {
            return 0;
        };
        let booking = &mut self.entries[at];
        if !std::mem::replace(&mut booking.stands, false) || now > booking.ready_at {
            return 0;
        }
        let cost = booking.cost;
        let later = || self.entries.range(at + 1..).filter(|entry| entry.waits);
        let standing = later().rfind(|entry| entry.stands).map(|entry| entry.id);
        let behind: u64 = later()
            .take_while(|entry| standing.is_some_and(|last| entry.id <= last))
            .map(|entry| entry.cost)
            .sum();
        self.merge_cancelled(at);
        u32::try_from(cost.saturating_sub(behind)).unwrap_or(u32::MAX)
    }

    /// Drops what can no longer be cancelled.
    fn forget_past(&mut self, now: Moment) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.ready_at < now)
        {
            self.entries.pop_front();
        }
    }

    /// Makes one of two that were cancelled and stand beside each other: only their sum is of interest. So
    /// there are never many more than those that stand.
    fn merge_cancelled(&mut self, at: usize) {
        for first in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            let (Some(one), Some(next)) = (self.entries.get(first), self.entries.get(first + 1))
            else {
                continue;
            };
            if one.stands || next.stands || one.waits != next.waits {
                continue;
            }
            let (cost, ready_at) = (next.cost, next.ready_at);
            self.entries[first].cost += cost;
            self.entries[first].ready_at = ready_at;
            self.entries.remove(first + 1);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}
