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
    cost: u32,
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
            cost,
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
        let cost = u64::from(booking.cost);
        let later = || self.entries.range(at + 1..).filter(|entry| entry.waits);
        let standing = later().rfind(|entry| entry.stands).map(|entry| entry.id);
        let behind: u64 = later()
            .take_while(|entry| standing.is_some_and(|last| entry.id <= last))
            .map(|entry| u64::from(entry.cost))
            .sum();
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
        while self.entries.back().is_some_and(|entry| !entry.stands) {
            self.entries.pop_back();
        }
    }
}
