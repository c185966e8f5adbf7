//! The table of leases: permits that clients hold by an id until they release them or the lease expires.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Outcome, Permit};
use plimsoll_engine::Hold;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The id of a lease. A client that knows it may renew and release the lease, so it is random.
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
    /// Hides the id, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Id")
    }
}

/// The part of a lease that the client receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) id: Id,
    pub(crate) ttl: Duration,
    /// Fencing token: larger than that of every earlier lease. A resource refuses a token smaller than the largest it has seen.
    pub(crate) fence: u64,
}

/// All leases.
#[derive(Debug)]
pub(crate) struct Leases {
    table: Mutex<Table>,
    most: usize,
    fences: AtomicU64,
    /// Wakes [`expire`](Leases::expire) when a new lease expires before all others.
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

    /// Stores `hold` for `ttl`. Undoes it and returns `None` if the table is full.
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

    /// Extends a lease to `ttl` from now. `None` if it was released or has expired.
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

    /// Removes a lease and returns its permits. `None` if it was released or has expired.
    pub(crate) fn take(&self, id: Id) -> Option<Hold> {
        self.lock().remove(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().held.len()
    }

    /// Returns the permits of expired leases, forever.
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
        // After the lock is released: dropping permits wakes waiters.
        drop(table);
        for hold in expired {
            hold.finish(Outcome::Ignore);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
