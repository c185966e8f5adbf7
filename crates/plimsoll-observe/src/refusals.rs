//! Refusals by the name of the limiter.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use plimsoll::Reason;

/// The maximum number of counted names, because a program may name limiters after keys.
const MAX_NAMES: usize = 256;

/// The name that counts all further names.
const OTHER: &str = "other";

type ByReason = BTreeMap<&'static str, AtomicU64>;

/// The write lock is taken only for a new name or reason.
#[derive(Default, Debug)]
pub(crate) struct Refusals(RwLock<BTreeMap<Box<str>, ByReason>>);

/// The refusals of one limiter for one reason.
pub(crate) struct Refused {
    pub(crate) limiter: Box<str>,
    pub(crate) reason: &'static str,
    pub(crate) count: u64,
}

impl Refusals {
    pub(crate) fn count(&self, limiter: &str, reason: Reason) {
        let reason = reason.as_str();
        let seen = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = seen.get(limiter).and_then(|counts| counts.get(reason)) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(seen);
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = seen.contains_key(limiter) || seen.len() < MAX_NAMES;
        let limiter = if known { limiter } else { OTHER };
        let counts = seen.entry(limiter.into()).or_default();
        *counts.entry(reason).or_default().get_mut() += 1;
    }

    /// All counts, by name and reason.
    pub(crate) fn read(&self) -> Vec<Refused> {
        let seen = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let each = seen.iter().flat_map(|(limiter, counts)| {
            counts.iter().map(|(reason, count)| Refused {
                limiter: limiter.clone(),
                reason,
                count: count.load(Ordering::Relaxed),
            })
        });
        each.collect()
    }
}
