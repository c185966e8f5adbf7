//! What is counted of a limit beside what its limiter counts itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use plimsoll::{Denied, Reason};

use crate::terms::LastTerms;
use crate::top::TopKeys;

/// The reasons that are counted apart. One that is not here counts as the last.
const REASONS: [Reason; 14] = [
    Reason::Exhausted,
    Reason::TooSoon,
    Reason::SoftThrottle,
    Reason::LockedOut,
    Reason::TooLarge,
    Reason::QueueFull,
    Reason::Evicted,
    Reason::TimedOut,
    Reason::Shed,
    Reason::Saturated,
    Reason::KeysFull,
    Reason::NoKey,
    Reason::Closed,
    Reason::Unavailable,
];

/// Of every so many decisions of a thread one is noted among the top keys, for all of them.
pub(crate) const SAMPLED: u32 = 16;

/// How many keys of a limit are known to have changed tiers.
const MOST_TERMS: usize = 1_000_000;

/// The counts of one limit, and which terms its keys had last. They stay when the file changes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    refused: [AtomicU64; REASONS.len()],
    would_refuse: AtomicU64,
    /// What is in flight beyond a limit in shadow mode.
    beyond: AtomicU64,
    top: Mutex<Top>,
    last: OnceLock<Box<LastTerms>>,
}

/// The keys that use most, and those that are refused most.
#[derive(Debug, Default)]
pub(crate) struct Top {
    pub(crate) used: TopKeys,
    pub(crate) refused: TopKeys,
}

impl Seen {
    /// A decision was refused because of this limit.
    #[cold]
    pub(crate) fn refused(&self, denied: &Denied, key: &str) {
        let index = REASONS.iter().position(|it| *it == denied.reason());
        let index = index.unwrap_or(REASONS.len() - 1);
        self.refused[index].fetch_add(1, Ordering::Relaxed);
        if !key.is_empty() {
            self.lock().refused.add(key, 1);
        }
    }

    /// One of [`SAMPLED`] decisions was admitted, and took `cost` for `key`. Only these are noted: this is on the fast path.
    #[cold]
    pub(crate) fn sample(&self, key: &str, cost: u64) {
        // Somebody else notes a key: this one is left out, rather than waited for.
        if !key.is_empty()
            && let Ok(mut top) = self.top.try_lock()
        {
            top.used.add(key, cost.saturating_mul(SAMPLED.into()));
        }
    }

    /// A limit in shadow mode would have refused.
    pub(crate) fn would_refuse(&self, key: &str) {
        self.would_refuse.fetch_add(1, Ordering::Relaxed);
        if !key.is_empty() {
            self.lock().refused.add(key, 1);
        }
    }

    /// By which terms keys were asked last.
    pub(crate) fn last_terms(&self) -> &LastTerms {
        self.last
            .get_or_init(|| Box::new(LastTerms::new(MOST_TERMS)))
    }

    /// How many decisions it refused, by reason, without those that are 0.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Reason, u64)> {
        let counts = self
            .refused
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        let counts = REASONS.into_iter().zip(counts);
        counts.filter(|(_, count)| *count > 0)
    }

    pub(crate) fn would_have_refused(&self) -> u64 {
        self.would_refuse.load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight_beyond(&self) -> u64 {
        self.beyond.load(Ordering::Relaxed)
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Top> {
        self.top.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work in flight beyond a limit in shadow mode, until it is dropped.
#[derive(Debug)]
pub(crate) struct Beyond {
    seen: Arc<Seen>,
    cost: u64,
}

impl Beyond {
    pub(crate) fn new(seen: &Arc<Seen>, cost: u64) -> Self {
        seen.beyond.fetch_add(cost, Ordering::Relaxed);
        Self {
            seen: Arc::clone(seen),
            cost,
        }
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        self.seen.beyond.fetch_sub(self.cost, Ordering::Relaxed);
    }
}
