//! The table of keys with borrowed permits or remembered refusals.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll::Moment;

use super::stock::Stock;

type Shard = HashMap<Arc<[u8]>, Stock>;

/// A bounded number of keys, in shards to reduce contention.
pub(super) struct Table {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    len: AtomicUsize,
    max_keys: usize,
}

const SHARDS: usize = 16;

impl Table {
    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            len: AtomicUsize::new(0),
            max_keys,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    /// Runs a function with the stock of a key that is in the table.
    pub(super) fn known<T>(&self, key: &[u8], look: impl FnOnce(&mut Stock) -> T) -> Option<T> {
        self.shard(key).get_mut(key).map(look)
    }

    /// Runs a function with the stock of a key, which is inserted if needed. `None` if the table is full.
    pub(super) fn with<T>(
        &self,
        key: &Arc<[u8]>,
        now: Moment,
        look: impl FnOnce(&mut Stock) -> T,
    ) -> Option<T> {
        let mut shard = self.shard(key);
        match shard.entry(Arc::clone(key)) {
            Entry::Occupied(mut known) => Some(look(known.get_mut())),
            Entry::Vacant(place) => {
                if self.len.fetch_add(1, Ordering::SeqCst) >= self.max_keys {
                    self.len.fetch_sub(1, Ordering::Relaxed);
                    return None;
                }
                Some(look(place.insert(Stock::new(now))))
            }
        }
    }

    /// Visits every key and evicts those for which `keep` returns `false`.
    pub(super) fn retain(&self, mut keep: impl FnMut(&Arc<[u8]>, &mut Stock) -> bool) {
        for shard in &self.shards {
            let mut shard = locked(shard);
            let before = shard.len();
            shard.retain(&mut keep);
            let gone = before - shard.len();
            self.len.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        let hash = usize::try_from(self.hasher.hash_one(key) >> 32).unwrap_or(0);
        locked(&self.shards[hash % SHARDS])
    }
}

/// Hides the keys, which may be secrets.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
