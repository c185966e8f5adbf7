//! The retry budget: a share of all requests, and a reserve.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The window over which requests and retries are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// A budget of retries. Only requests of the last seconds count: unused retries do not accumulate.
#[derive(Debug)]
pub(crate) struct Budget {
    percent: u64,
    /// The retries in a window that are allowed regardless of the number of requests.
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

    /// Counts a request.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one retry from the budget. Returns false if none remains.
    pub(crate) fn retry(&self, now: Instant) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let past = now.saturating_duration_since(spent.since);
        if past >= 2 * WINDOW {
            // The last call was long ago: the requests of a window are known only on average.
            let requests = self.requests.load(Ordering::Relaxed);
            let share = requests.saturating_mul(10) / past.as_secs().max(1);
            self.requests.store(share, Ordering::Relaxed);
            *spent = Spent {
                since: now,
                retries: 0,
            };
        } else if past >= WINDOW {
            // Half of the last window still counts, so that the budget does not jump at its edge.
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
        // A hundred thousand requests in 1,000 seconds are a thousand in a window.
        assert_eq!(taken(&budget, now + 100 * WINDOW), 200 + 10);
    }

    #[test]
    fn none_without_requests_and_reserve() {
        let now = Instant::now();
        assert_eq!(taken(&Budget::new(20, 0, now), now), 0);
    }
}
