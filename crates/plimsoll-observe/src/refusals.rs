//! Refusals by the name of the limiter.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use plimsoll::Reason;

/// How many names there may be: somebody may have named limiters after their keys.
const MOST: usize = 256;

/// The name of those that came too late to have one.
const OTHER: &str = "other";

type Counts = BTreeMap<&'static str, AtomicU64>;

/// Locked for itself only when a name or a reason is new.
#[derive(Default, Debug)]
pub(crate) struct Refusals(RwLock<BTreeMap<Box<str>, Counts>>);

/// What was refused by one limiter for one reason.
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
        let known = seen.contains_key(limiter) || seen.len() < MOST;
        let limiter = if known { limiter } else { OTHER };
        let counts = seen.entry(limiter.into()).or_default();
        *counts.entry(reason).or_default().get_mut() += 1;
    }

    /// All that was counted, in order.
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
