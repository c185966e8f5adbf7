//! Slots that descriptors hold until they give them back.
//!
//! Envoy gives back by descriptor, not by what it was granted: the lease that was taken longest ago ends. One whose time is
//! up has ended by itself, and a later return ends a younger one of the same descriptor.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll_engine::Hold;
use tokio::time::Instant;

use crate::leases::{Id, Leases};

/// Which leases a limit and a key have.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_subject: HashMap<String, VecDeque<Id>>,
    /// All of them last equally long, so the first ends first.
    by_end: VecDeque<(Instant, String, Id)>,
}

impl Table {
    /// Forgets leases whose time is up.
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
    /// Keeps what is held for these subjects. If there are too many leases it is undone.
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

    /// Ends the lease of a subject that was taken longest ago, if it has one.
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
            // One that is gone was given back by another descriptor of the same request.
            if let Some(hold) = leases.take(id) {
                drop(hold);
                return;
            }
        }
    }
}
