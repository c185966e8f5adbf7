//! The terms by which each key was last decided, where a limit has tiers.
//!
//! *Terms* are the numbers by which a limit decides for a key: its own, or those of a tier or an override. When a key changes to
//! another tier, its usage under the terms before is charged to the new ones, so that no key gains by changing.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::handle::{Handle, Subject};

const SHARDS: usize = 16;

/// The last terms of keys that have, or once had, other terms than the limit's own.
///
/// Bounded: a full shard is cleared. A key of that shard that changes tiers later starts the new tier without its former usage.
pub(crate) struct LastTerms {
    shards: [Mutex<HashMap<u64, u64>>; SHARDS],
    hasher: RandomState,
    /// The largest number of keys in a shard.
    max: usize,
    /// Whether any key ever had other terms than the limit's own.
    used: AtomicBool,
}

impl LastTerms {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            max: max.div_ceil(SHARDS).max(1),
            used: AtomicBool::new(false),
        }
    }

    /// The number of the terms with this name. It does not depend on the other terms, so a reload of the file keeps it.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.hasher.hash_one(name).max(1)
    }

    /// Stores the terms by which `key` is decided now; 0 are the limit's own. Returns the terms before, if they differ.
    pub(crate) fn note(&self, key: &str, terms: u64) -> Option<u64> {
        if terms == 0 && !self.used.load(Ordering::Acquire) {
            return None;
        }
        let (hash, mut known) = self.shard(key);
        if let Some(last) = known.get_mut(&hash) {
            let before = std::mem::replace(last, terms);
            return (before != terms).then_some(before);
        }
        // The limit's own terms need not be stored: a key that is not stored has them.
        if terms == 0 {
            return None;
        }
        if known.len() >= self.max {
            known.clear();
        }
        known.insert(hash, terms);
        self.used.store(true, Ordering::Release);
        Some(0)
    }

    /// The terms by which `key` was last decided.
    pub(crate) fn get(&self, key: &str) -> u64 {
        let (hash, known) = self.shard(key);
        known.get(&hash).copied().unwrap_or(0)
    }

    fn shard(&self, key: &str) -> (u64, MutexGuard<'_, HashMap<u64, u64>>) {
        let hash = self.hasher.hash_one(key);
        let shard = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        let known = self.shards[shard].lock();
        (hash, known.unwrap_or_else(PoisonError::into_inner))
    }
}

/// The usage of a key under the terms `from` that exceeds its usage under the terms `to`. 0 unless both are rates.
#[cold]
pub(crate) fn carried(from: &Handle, to: &Handle, key: &str) -> u64 {
    let used = |subject: &Subject<'_>| {
        let standing = subject.standing()?;
        let rate = !standing.returns;
        rate.then_some(standing.limit.saturating_sub(standing.remaining?))
    };
    match (used(&from.of(key)), used(&to.of(key))) {
        (Some(before), Some(here)) => before.saturating_sub(here),
        _ => 0,
    }
}

impl std::fmt::Debug for LastTerms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastTerms").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_terms_is_noticed_once() {
        let last = LastTerms::new(100);
        let (own, pro) = (0, last.number("pro"));
        assert_eq!(last.note("anna", own), None);
        assert_eq!(last.note("anna", pro), Some(own));
        assert_eq!(last.note("anna", pro), None);
        assert_eq!(last.note("bert", own), None);
        assert_eq!((last.get("anna"), last.get("bert")), (pro, own));
        assert_eq!(last.note("anna", own), Some(pro));
        assert_eq!(last.note("anna", own), None);
    }

    #[test]
    fn it_is_bounded() {
        let last = LastTerms::new(160);
        for key in 0..10_000 {
            last.note(&key.to_string(), last.number("pro"));
        }
        let known: usize = last.shards.iter().map(|it| it.lock().unwrap().len()).sum();
        assert!(known <= 160, "{known}");
    }
}
