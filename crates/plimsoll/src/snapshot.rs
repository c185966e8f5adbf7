/// The numbers of a limiter at one moment, for operators: limit, use, queue and totals.
///
/// It is a copy: when it is read, the limiter may have changed. [`Standing`](crate::Standing) holds the numbers for
/// callers.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
///
/// let gate = Gate::new(Concurrency::new(4));
/// let _permit = gate.try_acquire(3)?;
/// assert!(gate.try_acquire(2).is_err());
///
/// let snapshot = gate.snapshot();
/// assert_eq!((snapshot.in_use(), snapshot.available()), (3, 1));
/// assert_eq!((snapshot.granted_total(), snapshot.denied_total()), (1, 1));
/// assert_eq!(snapshot.saturation(), 0.75);
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Snapshot {
    pub(crate) limit: u64,
    pub(crate) available: u64,
    pub(crate) in_use: u64,
    pub(crate) queue_bound: u64,
    pub(crate) queued: u64,
    pub(crate) waiters: u64,
    #[cfg_attr(feature = "serde", serde(rename = "granted_total"))]
    pub(crate) granted: u64,
    #[cfg_attr(feature = "serde", serde(rename = "denied_total"))]
    pub(crate) denied: u64,
    #[cfg_attr(feature = "serde", serde(rename = "evicted_total"))]
    pub(crate) evicted: u64,
    #[cfg_attr(feature = "serde", serde(rename = "cancelled_total"))]
    pub(crate) cancelled: u64,
}

impl Snapshot {
    /// Creates a snapshot of a limiter without a queue, for authors of limiters. `in_use` is `limit - available`.
    ///
    /// ```
    /// use plimsoll::Snapshot;
    ///
    /// let snapshot = Snapshot::of(10, 4).with_totals(70, 3);
    /// assert_eq!((snapshot.in_use(), snapshot.denied_total()), (6, 3));
    /// ```
    #[must_use]
    pub fn of(limit: u64, available: u64) -> Self {
        let available = available.min(limit);
        Self {
            limit,
            available,
            in_use: limit - available,
            ..Self::default()
        }
    }

    /// Sets the numbers of granted and refused demands so far.
    #[must_use]
    pub fn with_totals(mut self, granted: u64, denied: u64) -> Self {
        self.granted = granted;
        self.denied = denied;
        self
    }

    /// Sets the number of waiting demands, each of a cost of 1, and the bound of the queue.
    #[must_use]
    pub fn with_waiters(mut self, waiters: u64, bound: u64) -> Self {
        self.waiters = waiters;
        self.queued = waiters;
        self.queue_bound = bound;
        self
    }

    /// Returns the most that can be granted at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the amount that could be granted now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.available
    }

    /// Returns the amount that was granted and is not yet returned or refilled.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Returns the bound of the queue, 0 without one.
    #[must_use]
    pub fn queue_bound(&self) -> u64 {
        self.queue_bound
    }

    /// Returns the sum of the waiting costs; a cost of 0 counts as 1.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the number of demands that wait.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters
    }

    /// Returns the number of granted demands so far; 0 if the limiter does not [count](crate::GateBuilder::totals).
    #[must_use]
    pub fn granted_total(&self) -> u64 {
        self.granted
    }

    /// Returns the number of refused demands so far, refused at once or after waiting; 0 if the limiter does not
    /// [count](crate::GateBuilder::totals).
    #[must_use]
    pub fn denied_total(&self) -> u64 {
        self.denied
    }

    /// Returns the number of refused demands that were evicted from the queue.
    #[must_use]
    pub fn evicted_total(&self) -> u64 {
        self.evicted
    }

    /// Returns the number of demands that their callers cancelled while they waited. They count neither as granted nor
    /// as refused.
    #[must_use]
    pub fn cancelled_total(&self) -> u64 {
        self.cancelled
    }

    /// Returns the part of the limit that is in use: 0 if idle, 1 if all of it is in use.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
    pub fn saturation(&self) -> f64 {
        if self.limit == 0 {
            return 1.0;
        }
        (self.in_use as f64 / self.limit as f64).min(1.0)
    }
}
