//! How many requests may be sent again: a share of all of them, and a few beside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Over so long requests and retries are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// A budget of retries. What was saved in a calm hour is not spent in a storm: only the last seconds count.
#[derive(Debug)]
pub(crate) struct Budget {
    percent: u64,
    /// Retries in a window that need no requests.
    reserve: u64,
    requests: AtomicU64,
    spent: Mutex<Spent>,
}

#[derive(Debug)]
struct Spent {
    since: Instant,
    retries: u64,
}

impl Budget {
    pub(crate) fn new(percent: u32, least: u32, now: Instant) -> Self {
        Self {
            percent: percent.into(),
            reserve: u64::from(least) * WINDOW.as_secs(),
            requests: AtomicU64::new(0),
            spent: Mutex::new(Spent {
                since: now,
                retries: 0,
            }),
        }
    }

    /// A request comes.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one retry, if there is one left.
    pub(crate) fn retry(&self, now: Instant) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let past = now.saturating_duration_since(spent.since);
        if past >= 2 * WINDOW {
            // There was no call for long: what came in a window is known only on average.
            let requests = self.requests.load(Ordering::Relaxed);
            let share = requests.saturating_mul(10) / past.as_secs().max(1);
            self.requests.store(share, Ordering::Relaxed);
            *spent = Spent {
                since: now,
                retries: 0,
            };
        } else if past >= WINDOW {
            // Half of it still counts, so that the edge of a window is no gap.
            self.requests
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(it / 2))
                .ok();
            *spent = Spent {
                since: now,
                retries: spent.retries / 2,
            };
        }
        let requests = self.requests.load(Ordering::Relaxed);
        let most = self.reserve + requests.saturating_mul(self.percent) / 100;
        let granted = spent.retries < most;
        spent.retries += u64::from(granted);
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &Budget, now: Instant) -> usize {
        (0..10_000).take_while(|_| budget.retry(now)).count()
    }

    #[test]
    fn a_share_of_requests_and_a_reserve() {
        let now = Instant::now();
        let budget = Budget::new(20, 10, now);
        (0..1000).for_each(|_| budget.request());
        assert_eq!(taken(&budget, now), 200 + 100);
        assert!(!budget.retry(now));
    }

    #[test]
    fn what_was_saved_long_ago_is_gone() {
        let now = Instant::now();
        let budget = Budget::new(20, 1, now);
        (0..100_000).for_each(|_| budget.request());
        // A hundred thousand in 1,000 seconds are a thousand in a window.
        assert_eq!(taken(&budget, now + 100 * WINDOW), 200 + 10);
    }

    #[test]
    fn none_without_requests_and_reserve() {
        let now = Instant::now();
        assert_eq!(taken(&Budget::new(20, 0, now), now), 0);
    }
}
