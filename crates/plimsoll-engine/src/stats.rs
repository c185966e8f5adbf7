//! Statistics of one limit that its limiter does not count itself: refusals by reason, shadow refusals, top keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use plimsoll::{Denied, Reason};

use crate::terms::LastTerms;
use crate::top::TopKeys;

/// The reasons with a counter of their own. A reason that is not in the list counts as the last one.
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

/// One of this many decisions of a thread is counted among the top keys, with this weight.
pub(crate) const SAMPLED: u32 = 16;

/// The bound of [`LastTerms`] for one limit.
const MOST_TERMS: usize = 1_000_000;

/// The statistics of one limit, and the last terms of its keys. A reload of the file keeps them.
#[derive(Debug, Default)]
pub(crate) struct LimitStats {
    refused: [AtomicU64; REASONS.len()],
    would_refuse: AtomicU64,
    /// Work in flight that a limit in shadow mode would have refused.
    beyond: AtomicU64,
    top: Mutex<Top>,
    last: OnceLock<Box<LastTerms>>,
}

/// The keys with the highest usage, and those with the most refusals.
#[derive(Debug, Default)]
pub(crate) struct Top {
    pub(crate) used: TopKeys,
    pub(crate) refused: TopKeys,
}

impl LimitStats {
    /// Counts a decision that was refused because of this limit.
    #[cold]
    pub(crate) fn refused(&self, denied: &Denied, key: &str) {
        let index = REASONS.iter().position(|it| *it == denied.reason());
        let index = index.unwrap_or(REASONS.len() - 1);
        self.refused[index].fetch_add(1, Ordering::Relaxed);
        if !key.is_empty() {
            self.lock().refused.add(key, 1);
        }
    }

    /// Counts an admitted decision among the top keys. Called for one of [`SAMPLED`] decisions, because it takes a lock.
    #[cold]
    pub(crate) fn sample(&self, key: &str, cost: u64) {
        // The lock is taken: this sample is skipped, so that the fast path never waits.
        if !key.is_empty()
            && let Ok(mut top) = self.top.try_lock()
        {
            top.used.add(key, cost.saturating_mul(SAMPLED.into()));
        }
    }

    /// Counts a decision that this limit, in shadow mode, would have refused.
    pub(crate) fn would_refuse(&self, key: &str) {
        self.would_refuse.fetch_add(1, Ordering::Relaxed);
        if !key.is_empty() {
            self.lock().refused.add(key, 1);
        }
    }

    /// The last terms of keys.
    pub(crate) fn last_terms(&self) -> &LastTerms {
        self.last
            .get_or_init(|| Box::new(LastTerms::new(MOST_TERMS)))
    }

    /// The number of refused decisions by reason, without zeros.
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

/// Counts work in flight that a limit in shadow mode would have refused, until it is dropped.
#[derive(Debug)]
pub(crate) struct ShadowExcess {
    stats: Arc<LimitStats>,
    cost: u64,
}

impl ShadowExcess {
    pub(crate) fn new(stats: &Arc<LimitStats>, cost: u64) -> Self {
        stats.beyond.fetch_add(cost, Ordering::Relaxed);
        Self {
            stats: Arc::clone(stats),
            cost,
        }
    }
}

impl Drop for ShadowExcess {
    fn drop(&mut self) {
        self.stats.beyond.fetch_sub(self.cost, Ordering::Relaxed);
    }
}
