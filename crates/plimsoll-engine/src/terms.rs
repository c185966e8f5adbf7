//! The terms by which each key was asked last, where a limit has tiers.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

const SHARDS: usize = 16;

/// Which terms the keys of a limit were asked by last, for keys that use others than those of the limit itself or have
/// done so. Bounded: where too many keys are known, some are forgotten, and what such a key has used in its last tier is
/// not carried over when it changes to another.
pub(crate) struct LastTerms {
    shards: [Mutex<HashMap<u64, u16>>; SHARDS],
    hasher: RandomState,
    most: usize,
}

impl LastTerms {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            most: most.div_ceil(SHARDS).max(1),
        }
    }

    /// Notes that `key` is asked by `terms` now. Returns the terms before, if they were others.
    pub(crate) fn note(&self, key: &str, terms: usize) -> Option<usize> {
        let terms = u16::try_from(terms).unwrap_or(u16::MAX);
        let hash = self.hasher.hash_one(key);
        let shard = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        let mut known = self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = known.get_mut(&hash) {
            let before = std::mem::replace(last, terms);
            return (before != terms).then_some(before.into());
        }
        // Terms of the limit itself need not be known: who is not known has them.
        if terms == 0 {
            return None;
        }
        if known.len() >= self.most {
            known.clear();
        }
        known.insert(hash, terms);
        Some(0)
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
        assert_eq!(last.note("anna", 0), None);
        assert_eq!(last.note("anna", 2), Some(0));
        assert_eq!(last.note("anna", 2), None);
        assert_eq!(last.note("bert", 0), None);
        assert_eq!(last.note("anna", 0), Some(2));
        assert_eq!(last.note("anna", 0), None);
    }

    #[test]
    fn it_is_bounded() {
        let last = LastTerms::new(160);
        for key in 0..10_000 {
            last.note(&key.to_string(), 1);
        }
        let known: usize = last.shards.iter().map(|it| it.lock().unwrap().len()).sum();
        assert!(known <= 160, "{known}");
    }
}
