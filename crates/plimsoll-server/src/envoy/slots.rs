//! The slots of concurrency limits that descriptors hold until Envoy returns them.
//!
//! Envoy returns a slot by its descriptor and not by the id of a grant, so a return ends the oldest lease of the descriptor. If a
//! lease has expired, a late return for it ends a younger lease of the same descriptor.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll_engine::Hold;
use tokio::time::Instant;

use crate::leases::{Id, Leases};

/// The leases of each limit and key.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_subject: HashMap<String, VecDeque<Id>>,
    /// All leases have the same length, so they expire in insertion order.
    by_end: VecDeque<(Instant, String, Id)>,
}

impl Table {
    /// Removes expired leases.
    fn sweep(&mut self, now: Instant) {
        while let Some((ends, ..)) = self.by_end.front()
            && *ends <= now
        {
            if let Some((_, subject, id)) = self.by_end.pop_front() {
                self.forget(&subject, id);
            }
        }
    }

    fn forget(&mut self, subject: &str, id: Id) {
        if let Some(leases) = self.by_subject.get_mut(subject) {
            leases.retain(|other| *other != id);
            if leases.is_empty() {
                self.by_subject.remove(subject);
            }
        }
    }
}

impl Slots {
    /// Stores a hold as a lease for each of these subjects. Undoes it if the lease table is full.
    pub(super) fn keep(
        &self,
        leases: &Leases,
        hold: Hold,
        ttl: Duration,
        subjects: HashSet<String>,
    ) -> bool {
        let Some(lease) = leases.insert(hold, ttl) else {
            return false;
        };
        let now = Instant::now();
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.sweep(now);
        for subject in subjects {
            table
                .by_end
                .push_back((now + ttl, subject.clone(), lease.id));
            let leases = table.by_subject.entry(subject).or_default();
            leases.push_back(lease.id);
        }
        true
    }

    /// Ends the oldest lease of a subject, if it has one.
    pub(super) fn end_one(&self, leases: &Leases, subject: &str) {
        loop {
            let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            table.sweep(Instant::now());
            let ids = table.by_subject.get_mut(subject);
            let Some(id) = ids.and_then(VecDeque::pop_front) else {
                table.by_subject.remove(subject);
                return;
            };
            drop(table);
            // Another descriptor of the same request may have returned it.
            if let Some(hold) = leases.take(id) {
                drop(hold);
                return;
            }
        }
    }
}
