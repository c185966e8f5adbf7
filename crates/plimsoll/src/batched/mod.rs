mod stocks;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use self::stocks::{OWNERS, SLOTS, STOCKS, Shared, Stock};
use crate::grant::Era;
use crate::limiter::LimiterExt;
use crate::{Demand, Denied, Gate, InvalidLimit, Moment, Permit, Rule, Snapshot};

/// A rate limiter from which each thread takes permits in batches, for limiters that are a bottleneck themselves.
///
/// A thread spends its batch without touching shared memory, for at most the [`hold`](Self::hold) time (default: 10
/// ms). After that, and when the thread ends, the rest is refunded. A runtime with a hook for idle threads can return
/// it at once:
///
/// ```
/// use plimsoll::{Batched, Gate, TokenBucket};
///
/// let api = Batched::new(Gate::new(TokenBucket::per_second(1_000_000)), 32);
/// assert!(api.try_acquire(1).is_ok());
///
/// let idle = api.clone();
/// let runtime = tokio::runtime::Builder::new_multi_thread()
///     .on_thread_park(move || idle.return_stock())
///     .build();
/// ```
///
/// # What it costs in exactness
///
/// With n threads and a batch of b,
///
/// - at most n·(b − 1) permits are *stranded* in threads at any time: taken, and not available to other threads;
/// - over any span of time at most n·(b − 1) permits more are used than the limiter itself allows for that span: those
///   taken up to `hold` before it and used within it.
///
/// Permits are never created: every permit used was granted by the limiter once.
///
/// Each grant reads the clock once, which is most of its cost. The reading prevents a thread that comes back after a
/// pause from using the rest of an old batch. Reading it less often would let part of the batch be used after `hold`.
pub struct Batched<R: Rule> {
    gate: Gate<R>,
    shared: Arc<Shared>,
    id: u64,
    batch: u64,
    hold: Duration,
}

impl<R: Rule> Batched<R> {
    /// Lets each thread take `batch` permits at once from `gate`. A larger batch saves more exchanges on the shared
    /// word and strands more permits: the batch times the number of threads should be a small part of the limit.
    ///
    /// A limit whose permits are returned cannot be batched; that is a compile-time error.
    ///
    /// # Panics
    ///
    /// Panics if `batch` is 0 or above the limit.
    #[track_caller]
    pub fn new(gate: Gate<R>, batch: u64) -> Self {
        match Self::try_new(gate, batch) {
            Ok(batched) => batched,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Lets each thread take `batch` permits at once from `gate`.
    ///
    /// # Errors
    ///
    /// Returns an error if `batch` is 0 or above the limit.
    pub fn try_new(gate: Gate<R>, batch: u64) -> Result<Self, InvalidLimit> {
        const {
            assert!(
                !R::RETURNS_PERMITS,
                "a limit whose permits are returned cannot be batched"
            )
        };
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if batch == 0 || batch > gate.snapshot().limit() {
            return Err(InvalidLimit::new(
                "batch",
                batch,
                "at least 1 and at most the limit",
            ));
        }
        Ok(Self {
            shared: Arc::new_cyclic(|me| Shared {
                granted: AtomicU64::new(0),
                undone: AtomicU64::new(0),
                gate: gate.to_source(),
                me: Weak::clone(me),
            }),
            gate,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            batch,
            hold: Duration::from_millis(10),
        })
    }

    /// Sets how long a thread holds the rest of a batch. Default: 10 ms.
    ///
    /// ```
    /// use plimsoll::{Batched, Gate, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(TokenBucket::per_second(1000)).clock(time.clock()).build();
    /// let api = Batched::new(gate, 10).hold(Duration::from_millis(1));
    /// api.try_acquire(1)?;
    /// assert_eq!(api.snapshot().available(), 990);
    /// api.return_stock();
    /// assert_eq!(api.snapshot().available(), 999);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Takes from the stock of this thread, or from the limiter if the stock does not suffice.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the limiter. Other threads may return their stock earlier than its hint.
    #[inline]
    pub fn try_acquire(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        let demand = demand.into();
        // The clock is read only where there is enough in stock: the limiter reads it by itself.
        let spent = STOCKS.with(|stocks| {
            let stock = &stocks[self.slot()];
            let left = stock.left_after(self.id, demand.cost)?;
            // A refused demand must not spend stock: it would count as granted.
            let open = !self.gate.is_closed();
            open.then(|| stock.spend(self.gate.now(), demand.cost, left))?
        });
        let (taken, era) = match spent {
            Some(grant) => grant,
            None => self.restock(demand)?,
        };
        // Made here for both, so that it is never in memory: a function that returned it would write it there.
        Ok(Permit::new(&*self.shared, demand.granted(taken), false).in_era(era))
    }

    fn slot(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits matter")]
        let id = self.id as usize;
        id % SLOTS
    }

    /// Takes from the limiter, a batch if this thread keeps its rest; returns the moment of the gate's grant.
    #[inline(never)]
    fn restock(&self, demand: Demand) -> Result<(Moment, Era), Denied> {
        let slot = self.slot();
        // A stock that was just used up stays with its owner; releasing and claiming it again would make all threads
        // write one shared counter.
        let (mine, served) = STOCKS.with(|stocks| {
            let stock = &stocks[slot];
            (stock.id.get() == self.id, stock.used_up(self.id))
        });
        if let Some(served @ 1..) = served {
            self.shared.granted.fetch_add(served, Ordering::Relaxed);
        }
        let fits = demand.cost > 0 && demand.cost < self.batch;
        // The stock of another limiter stays where it is unless a new one takes its place. A thread that is being torn down
        // keeps no stock.
        let keeps = served.is_some()
            || ((mine || fits) && OWNERS.try_with(|owners| owners.settle(slot)).is_ok());
        let batch = Demand {
            cost: self.batch,
            ..demand
        };
        if fits
            && keeps
            && let Ok(permit) = self.gate.attempt(batch)
        {
            // Undoing a part must reach the grant that the gate recorded.
            let (taken, era) = (permit.granted_at(), permit.era());
            permit.forget();
            STOCKS.with(|stocks| {
                stocks[slot].set(Stock {
                    id: self.id,
                    batch: self.batch,
                    left: self.batch - demand.cost,
                    surplus: demand.cost - 1,
                    taken,
                    era,
                    until: taken.plus(self.hold),
                });
            });
            if served.is_none() {
                let owner: Weak<Shared> = Arc::downgrade(&self.shared);
                let _kept = OWNERS.try_with(|owners| owners.set(slot, owner));
            }
            return Ok((taken, era));
        }
        let permit = self.gate.try_acquire(demand)?;
        self.shared.granted.fetch_add(1, Ordering::Relaxed);
        let (taken, era) = (permit.grant().taken, permit.era());
        permit.forget();
        Ok((taken, era))
    }

    /// Returns the stock of this thread to the limiter.
    pub fn return_stock(&self) {
        let slot = self.slot();
        if STOCKS.with(|stocks| stocks[slot].id.get()) == self.id {
            let _settled = OWNERS.try_with(|owners| owners.settle(slot));
        }
    }

    /// Returns a snapshot of the limiter. The stocks of threads count as in use; grants from a stock are counted when
    /// the stock runs out or is returned.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let undone = self.shared.undone.load(Ordering::Relaxed);
        let granted = self.shared.granted.load(Ordering::Relaxed);
        Snapshot {
            granted: granted.saturating_sub(undone),
            ..self.gate.snapshot()
        }
    }

    /// Returns the limiter that the batches are taken from.
    #[must_use]
    pub fn gate(&self) -> &Gate<R> {
        &self.gate
    }
}

impl<R: Rule> Clone for Batched<R> {
    fn clone(&self) -> Self {
        Self {
            gate: self.gate.clone(),
            shared: Arc::clone(&self.shared),
            ..*self
        }
    }
}

impl<R: Rule> fmt::Debug for Batched<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched")
            .field("gate", &self.gate)
            .field("batch", &self.batch)
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
