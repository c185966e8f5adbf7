//! What clients hold: slots and estimates, each by an id, until it is released or its time is up.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Outcome, Permit};
use plimsoll_engine::Hold;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The id of a lease. Who knows it may renew and release the lease, so it cannot be guessed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u128);

impl Id {
    fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let id = digits.then(|| u128::from_str_radix(text, 16).ok())?;
        id.map(Self)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Id {
    /// Not the id: it is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Id")
    }
}

/// What a client receives of its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) id: Id,
    pub(crate) ttl: Duration,
    /// Larger than that of every lease before it: a resource that has seen a larger one refuses a smaller one.
    pub(crate) fence: u64,
}

/// All leases.
#[derive(Debug)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    most: usize,
    fences: AtomicU64,
    /// A lease ends earlier than the one that was to end next.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<Id, (Hold, Instant, u64)>,
    by_end: BTreeSet<(Instant, Id)>,
}

impl Table {
    fn remove(&mut self, id: Id) -> Option<Hold> {
        let (hold, ends, _) = self.held.remove(&id)?;
        self.by_end.remove(&(ends, id));
        Some(hold)
    }
}

impl Leases {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            table: Mutex::default(),
            most,
            fences: AtomicU64::new(1),
            earlier: Notify::new(),
        }
    }

    /// Keeps `hold` for `ttl`. If there are too many leases it is undone.
    pub(crate) fn insert(&self, hold: Hold, ttl: Duration) -> Option<Lease> {
        let Ok(id) = Id::random() else {
            hold.undo();
            return None;
        };
        let fence = hold.permits().filter_map(Permit::fence).max();
        let fence = fence.unwrap_or_else(|| self.fences.fetch_add(1, Ordering::Relaxed));
        let ends = Instant::now() + ttl;
        let mut table = self.lock();
        if table.held.len() >= self.most {
            drop(table);
            hold.undo();
            return None;
        }
        table.held.insert(id, (hold, ends, fence));
        table.by_end.insert((ends, id));
        let is_next = table.by_end.first() == Some(&(ends, id));
        drop(table);
        if is_next {
            self.earlier.notify_one();
        }
        Some(Lease { id, ttl, fence })
    }

    /// Keeps a lease for `ttl` from now on. `None` if it has ended.
    pub(crate) fn renew(&self, id: Id, ttl: Duration) -> Option<Lease> {
        let mut table = self.lock();
        let (_, ends, fence) = table.held.get_mut(&id)?;
        let (before, now) = (*ends, Instant::now());
        if before <= now {
            return None;
        }
        *ends = now + ttl;
        let (ends, fence) = (*ends, *fence);
        table.by_end.remove(&(before, id));
        table.by_end.insert((ends, id));
        drop(table);
        self.earlier.notify_one();
        Some(Lease { id, ttl, fence })
    }

    /// Ends a lease, and returns what it held. `None` if it has ended already.
    pub(crate) fn take(&self, id: Id) -> Option<Hold> {
        self.lock().remove(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().held.len()
    }

    /// Returns what expired leases hold, for ever.
    pub(crate) async fn expire(&self) {
        loop {
            let next = self.lock().by_end.first().map(|(ends, _)| *ends);
            let earlier = self.earlier.notified();
            match next {
                None => earlier.await,
                Some(ends) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(ends) => self.end_expired(),
                        () = earlier => {}
                    }
                }
            }
        }
    }

    fn end_expired(&self) {
        let now = Instant::now();
        let mut expired = Vec::new();
        let mut table = self.lock();
        while let Some((ends, id)) = table.by_end.first().copied() {
            if ends > now {
                break;
            }
            expired.extend(table.remove(id));
        }
        // Not behind the lock: waiters are woken.
        drop(table);
        for hold in expired {
            hold.finish(Outcome::Ignore);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
