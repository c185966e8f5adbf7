//! What was taken and when, as it is written down by hand.

use super::{Kind, TOKEN, WINDOW};
use plimsoll::{Moment, Permit};

#[derive(Clone, Copy)]
struct Entry {
    at: Moment,
    /// After how many resets it was written.
    resets: u64,
    units: u64,
}

pub(super) struct Ledger {
    pub(super) kind: Kind,
    entries: Vec<Entry>,
    /// Whether anything was struck out of a rate.
    pub(super) struck: bool,
    resets: u64,
    /// Whether something was undone that had been granted at several moments. Less may come back of that.
    pub(super) mixed: bool,
    /// Since when it counts; windows begin then.
    since: Moment,
}

impl Ledger {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            entries: Vec::new(),
            struck: false,
            resets: 0,
            mixed: false,
            since: Moment::ORIGIN,
        }
    }

    pub(super) fn write(&mut self, at: Moment, units: u64) -> usize {
        let resets = self.resets;
        self.entries.push(Entry { at, resets, units });
        self.entries.len() - 1
    }

    pub(super) fn strike(&mut self, shares: &[Share]) {
        for share in shares {
            let entry = &mut self.entries[share.entry];
            // Nothing is left of what was before a reset.
            self.struck |= entry.units > 0 && share.units > 0;
            entry.units -= share.units.min(entry.units);
        }
    }

    /// Whether a part of it was granted at another moment than it says, or on the other side of a reset.
    pub(super) fn is_mixed(&self, kept: &Kept<'_>) -> bool {
        let moment = kept.permit.granted_at();
        let shares = kept.shares.iter();
        let entries: Vec<_> = shares.map(|share| self.entries[share.entry]).collect();
        let differs = |entry: &Entry| entry.at != moment || entry.resets != entries[0].resets;
        self.kind != Kind::Slots && entries.iter().any(differs)
    }

    pub(super) fn give_back(&mut self, shares: &[Share]) {
        if self.kind == Kind::Slots {
            self.strike(shares);
        }
    }

    pub(super) fn reset(&mut self, now: Moment) {
        if self.kind != Kind::Slots {
            self.entries.iter_mut().for_each(|entry| entry.units = 0);
            self.since = now;
            (self.struck, self.mixed) = (false, false);
            self.resets += 1;
        }
    }

    pub(super) fn in_use(&self, now: Moment) -> u64 {
        let counts = |entry: &&Entry| match self.kind {
            Kind::Slots | Kind::Bucket => true,
            Kind::Log => now.nanos_since(entry.at) < WINDOW,
            Kind::Fixed => {
                let index = |moment: Moment| moment.nanos_since(self.since) / WINDOW;
                entry.at >= self.since && index(entry.at) == index(now)
            }
        };
        let counting = self.entries.iter().filter(counts);
        counting.map(|entry| entry.units).sum()
    }

    /// What a bucket holds if exactly this was taken, in nanoseconds of its supply.
    pub(super) fn level(&self, now: Moment) -> i64 {
        let full = WINDOW.cast_signed();
        let (mut level, mut then) = (full, self.since);
        for entry in self.entries.iter().filter(|entry| entry.units > 0) {
            level = (level + entry.at.nanos_since(then).cast_signed()).min(full);
            level -= (entry.units * TOKEN).cast_signed();
            then = entry.at;
        }
        (level + now.nanos_since(then).cast_signed()).min(full)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) entry: usize,
    pub(super) units: u64,
}

pub(super) struct Kept<'a> {
    pub(super) permit: Permit<'a>,
    pub(super) shares: Vec<Share>,
}

impl Kept<'_> {
    pub(super) fn cost(&self) -> u64 {
        self.shares.iter().map(|share| share.units).sum()
    }

    /// Moves so much of it to another.
    pub(super) fn part(&mut self, mut units: u64) -> Vec<Share> {
        let mut part = Vec::new();
        for share in &mut self.shares {
            let moved = units.min(share.units);
            share.units -= moved;
            units -= moved;
            part.push(Share {
                units: moved,
                ..*share
            });
        }
        part
    }
}
