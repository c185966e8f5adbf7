//! What a gate has counted, for a keyed limit that adds up its gates.

use super::Gate;
use crate::Rule;

/// What a gate has counted by itself: behind its lock, and in counters that it does not share.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counted {
    pub(crate) granted: u64,
    /// Grants that were taken back, wherever they had been counted.
    pub(crate) undone: u64,
    pub(crate) denied: u64,
    pub(crate) evicted: u64,
    pub(crate) cancelled: u64,
}

impl Counted {
    pub(crate) fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.undone += other.undone;
        self.denied += other.denied;
        self.evicted += other.evicted;
        self.cancelled += other.cancelled;
    }
}

impl<R: Rule> Gate<R> {
    /// What it has counted. `shared` says whether its totals are those of the keyed limit it is part of.
    pub(crate) fn counted(&self, shared: bool) -> Counted {
        let (granted, denied) = if shared {
            (0, 0)
        } else {
            self.core.totals.sum()
        };
        self.core.look(|_, inside, _, _| Counted {
            granted: granted + inside.counts.granted,
            undone: inside.counts.undone,
            denied: denied + inside.counts.denied,
            evicted: inside.counts.evicted,
            cancelled: inside.counts.cancelled,
        })
    }
}
