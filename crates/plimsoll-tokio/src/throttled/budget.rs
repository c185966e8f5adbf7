use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::{Gate, InvalidLimit, Queue, Quota, TokenBucket};
use plimsoll_kinds::{Rate, Resource};

/// The default quantum.
const QUANTUM: u64 = 16 << 10;

/// A number of bytes per second, for one connection or shared by many. Clones share the budget.
///
/// ```
/// use plimsoll::{Gate, Queue, TokenBucket};
/// use plimsoll_tokio::Budget;
///
/// // A megabyte a second, and as much at once after a pause.
/// let simple = Budget::per_second(1_000_000);
///
/// // The same rate, but never more than 64 KiB at once, in small pieces.
/// let bucket = TokenBucket::per_second(1_000_000).burst(64 << 10);
/// let gate = Gate::builder(bucket).queue(Queue::fifo(u64::MAX)).name("uploads").build();
/// let even = Budget::new(gate).quantum(1024);
///
/// let invalid = Budget::try_per_second(0).unwrap_err();
/// assert_eq!(invalid.to_string(), "`limit` is 0: expected at least 1");
/// ```
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    rate: Resource,
    quantum: AtomicU64,
}

impl Budget {
    /// Creates a budget of `bytes` per second, with a burst of one second.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is 0.
    #[track_caller]
    #[must_use]
    pub fn per_second(bytes: u64) -> Self {
        Self::greedy(Quota::per_second(bytes))
    }

    /// Like [`per_second`](Self::per_second), but returns an error instead of panicking. For a number from outside the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` is 0.
    pub fn try_per_second(bytes: u64) -> Result<Self, InvalidLimit> {
        Quota::try_new(bytes, Duration::from_secs(1)).map(Self::greedy)
    }

    fn greedy(quota: Quota) -> Self {
        let gate = Gate::builder(TokenBucket::greedy(quota)).queue(Queue::fifo(u64::MAX));
        Self::new(gate.build())
    }

    /// Creates a budget on any rate limiter, in bytes.
    ///
    /// It needs a fifo queue with room for a quantum of every connection, such as `Queue::fifo(u64::MAX)`. If the queue
    /// is full, connections are not refused but retry, and shares are no longer fair.
    ///
    /// Transferred bytes cannot be returned, so a limit whose permits are returned is a compile-time error:
    ///
    /// ```compile_fail
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tokio::Budget;
    ///
    /// let budget = Budget::new(Gate::new(Concurrency::new(10)));
    /// ```
    #[must_use]
    pub fn new(rate: impl Into<Rate>) -> Self {
        let rate = Resource::from(rate.into());
        let budget = Self(Arc::new(Inner {
            rate,
            quantum: AtomicU64::new(0),
        }));
        budget.quantum(QUANTUM)
    }

    /// Sets the number of bytes that a connection gets at each turn, at least 1 and at most the burst. Default: 16 KiB.
    ///
    /// Small quanta are fair over short times; large ones wake connections less often.
    #[must_use]
    pub fn quantum(self, bytes: u64) -> Self {
        let burst = self.0.rate.snapshot().limit();
        self.set_quantum(bytes.min(burst));
        self
    }

    /// Returns the limiter that counts the bytes.
    pub fn limiter(&self) -> &Resource {
        &self.0.rate
    }

    /// The quantum.
    pub(super) fn share(&self) -> u64 {
        self.0.quantum.load(Ordering::Relaxed)
    }

    /// Changes the quantum, because the burst may shrink while connections run.
    pub(super) fn set_quantum(&self, bytes: u64) {
        self.0.quantum.store(bytes.max(1), Ordering::Relaxed);
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("rate", &self.0.rate)
            .field("quantum", &self.share())
            .finish()
    }
}
