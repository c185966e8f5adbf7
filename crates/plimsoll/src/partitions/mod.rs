//! Shares of one limit.

mod part;
mod per_key;
mod shares;

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use self::part::{Part, Shared, lock};
use self::shares::Shares;
use crate::moment::saturating_nanos;
use crate::name::Name;
use crate::{
    Acquire, Clock, Demand, Denied, Gate, InvalidLimit, Limiter, Metadata, Permit, Reservation,
    Rule, Shareable, Snapshot, Standing,
};

/// Divides one limit among several kinds of work, each with a share by weight.
///
/// ```
/// use plimsoll::{Concurrency, Demand, Gate, Limiter, Partitions};
///
/// let gate = Gate::new(Concurrency::new(10));
/// let shares = Partitions::new(gate, [("live", 7), ("batch", 3)]);
/// let (live, batch) = (shares.get("live").unwrap(), shares.get("batch").unwrap());
///
/// // There is no live work: batch work may use the whole limit.
/// let all = batch.try_acquire(10.into())?;
/// // Live work has come. It gets its share as soon as permits are returned, and batch work no more than its own.
/// assert!(live.try_acquire(1.into()).is_err());
/// drop(all);
/// assert!(batch.try_acquire(9.into()).is_ok());
/// let busy = live.try_acquire(7.into())?;
/// assert!(batch.try_acquire(4.into()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// The limit is never exceeded. A partition has a right to its share of the limit, rounded down, at least 1. It may use
/// more while other partitions do not use theirs: a share that its partition has not asked for in a while
/// ([`lend_after`](Self::lend_after), by default a second) can be borrowed. When its partition asks again, borrowers
/// are granted nothing more until it has its share, but keep their permits until their work is done. So a partition
/// with a lent share waits for that work, in the queue of the gate if it has one.
///
/// Shares follow the limit when it changes, as that of an [`Adaptive`](crate::adaptive::Adaptive) rule does.
///
/// # When to use it
///
/// For kinds of work that share one capacity and must not starve each other: live and batch requests, tenants of a
/// plan, readers and writers. If one kind of work always goes first, use a [`Priority`](crate::Priority). If callers
/// share nothing and each has a limit of its own, use a [`Keyed`](crate::Keyed) limit.
///
/// # By key
///
/// It is also a [limit by key](crate::PerKey): the key is the name of a partition, such as the value of a request
/// header.
pub struct Partitions<R: Rule> {
    shared: Arc<Shared<R>>,
    parts: Arc<[Partition<R>]>,
    /// The partition of keys that name none.
    others: Option<usize>,
}

/// One of the [`Partitions`] of a limit: a limiter of its own.
///
/// A clone is a handle to the same partition. A refusal by its share carries the name of the partition; a refusal by
/// the whole limit carries that of the gate. [`Limiter::snapshot`] shows its share as the limit, and its permits as in
/// use.
///
/// ```
/// use plimsoll::{Concurrency, Gate, Limiter, Partitions};
///
/// let shares = Partitions::try_new(Gate::new(Concurrency::new(10)), [("live", 7), ("batch", 3)])?;
/// let batch = shares.get("batch").unwrap();
/// let _permit = batch.try_acquire(2.into())?;
/// let snapshot = batch.snapshot();
/// assert_eq!((snapshot.limit(), snapshot.in_use()), (3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Partition<R: Rule> {
    part: Arc<Part<R>>,
}

impl<R: Rule> Partitions<R> {
    /// Divides the limit of `gate` among partitions by weight. See [`try_new`](Self::try_new).
    ///
    /// # Panics
    ///
    /// Panics if there are no partitions, if two have the same name, or if a weight is 0.
    #[track_caller]
    pub fn new<'a>(gate: Gate<R>, weights: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        match Self::try_new(gate, weights) {
            Ok(partitions) => partitions,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Divides the limit of `gate` among partitions by weight.
    ///
    /// Weights are relative: 7 and 3 are the same as 70 and 30. Only a limit whose permits are returned has shares,
    /// since a share is the number of permits that a partition may hold at once; for other rules it is a compile-time
    /// error.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no partitions, if two have the same name, or if a weight is 0.
    pub fn try_new<'a>(
        gate: Gate<R>,
        weights: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<Self, InvalidLimit> {
        const {
            assert!(
                R::RETURNS_PERMITS,
                "only a limit whose permits are returned has shares"
            )
        };
        let mut names = Vec::new();
        let mut parts = Vec::new();
        for (name, weight) in weights {
            if weight == 0 {
                return Err(InvalidLimit::new("weight", weight, "at least 1"));
            }
            let name_of_part = Name::with(Some(name), gate.metadata());
            if names.contains(&name_of_part) {
                return Err(InvalidLimit::new(
                    "name",
                    name,
                    "each partition to have its own",
                ));
            }
            names.push(name_of_part);
            parts.push(weight);
        }
        if parts.is_empty() {
            return Err(InvalidLimit::new(
                "partitions",
                "empty",
                "at least 1 partition",
            ));
        }
        let shares = Shares::new(parts, 1_000_000_000, gate.now());
        let shared = Arc::new(Shared {
            gate,
            names: names.into(),
            shares: Mutex::new(shares),
        });
        let part = |index| {
            let part = Arc::new_cyclic(|me| Part {
                shared: Arc::clone(&shared),
                index,
                me: Weak::clone(me),
            });
            Partition { part }
        };
        Ok(Self {
            parts: (0..shared.names.len()).map(part).collect(),
            shared,
            others: None,
        })
    }

    /// Sets how long a share is not lent after its partition last asked for it. Default: 1 second. It is lent at the
    /// latest after twice that time.
    ///
    /// A short time makes better use of the limit when the mix of work changes often. A long time reserves the share of
    /// a partition that asks rarely and must not wait for borrowers.
    pub fn lend_after(&self, idle: Duration) {
        lock(&self.shared.shares).set_lend_after(saturating_nanos(idle).max(1));
    }

    /// Returns the partition with this name.
    ///
    /// `None` if there is none; [`of_key`](Self::of_key) falls back to the partition of [others](Self::others).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Partition<R>> {
        self.parts.get(self.position(name)?).cloned()
    }

    fn position(&self, name: &str) -> Option<usize> {
        let mut names = self.shared.names.iter();
        names.position(|known| known.as_str() == Some(name))
    }

    /// Returns the gate with the shared limit.
    ///
    /// Changes of the gate, such as [`resize`](Gate::resize), apply to all partitions. Permits taken from the gate
    /// itself count against no share, and reduce the limit for all of them.
    #[must_use]
    pub fn gate(&self) -> &Gate<R> {
        &self.shared.gate
    }
}

impl<R: Rule> Limiter for Partition<R> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let claim = self.part.claim(demand)?;
        let permit = self.part.shared.gate.try_acquire(demand)?;
        Ok(self.part.adopt(claim, permit))
    }

    /// Waits for room in the limit, in the queue of its gate. A demand above what the partition may have is refused.
    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(self.part.acquire(demand))
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        let part = Arc::clone(&self.part);
        Acquire::from_future(async move { part.acquire(demand).await.map(Permit::into_owned) })
    }

    fn standing(&self) -> Standing {
        let whole = self.part.shared.gate.standing();
        Standing {
            remaining: Some(self.snapshot().available),
            ..whole
        }
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let part = &*self.part;
        let claim = part.claim(demand)?;
        let made_at = part.shared.gate.now();
        let reservation = part.shared.gate.reserve(demand)?;
        let ready_at = reservation.ready_at();
        let permit = Box::pin(async move {
            let permit = reservation.await?;
            Ok(part.adopt(claim, permit))
        });
        Ok(Reservation::from_future(made_at, ready_at, permit))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        let part = &*self.part;
        let gate = &part.shared.gate;
        let (now, limit) = (gate.now(), gate.limit());
        let available = lock(&part.shared.shares).available(part.index, limit, now);
        if demand.cost <= limit && demand.weight() > available {
            return Err(part.exhausted(limit, available, now));
        }
        gate.estimate(demand)
    }

    /// The share of the partition, and its permits in use. The waiting costs and the totals are those of the whole
    /// limit.
    fn snapshot(&self) -> Snapshot {
        let part = &*self.part;
        let whole = part.shared.gate.snapshot();
        let (now, limit) = (part.shared.gate.now(), part.shared.gate.limit());
        let mut shares = lock(&part.shared.shares);
        Snapshot {
            limit: shares.share(part.index, limit),
            in_use: shares.in_use(part.index),
            available: shares
                .available(part.index, limit, now)
                .min(whole.available()),
            ..whole
        }
    }

    /// Closes the limit, for all partitions.
    fn close(&self) {
        self.part.shared.gate.close();
    }

    fn name(&self) -> Option<&str> {
        self.part.name().as_str()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.part.name().metadata()
    }

    fn clock(&self) -> &Clock {
        Limiter::clock(&self.part.shared.gate)
    }

    fn internals(&self) -> Option<&dyn crate::Internals> {
        Some(self)
    }
}

impl<R: Rule> crate::Internals for Partition<R> {
    fn source(&self) -> Option<&dyn Shareable> {
        Some(&*self.part)
    }
}

impl<R: Rule> Clone for Partition<R> {
    fn clone(&self) -> Self {
        Self {
            part: Arc::clone(&self.part),
        }
    }
}

impl<R: Rule> Clone for Partitions<R> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            parts: Arc::clone(&self.parts),
            others: self.others,
        }
    }
}

impl<R: Rule> fmt::Debug for Partition<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("name", &self.part.name())
            .finish_non_exhaustive()
    }
}

impl<R: Rule> fmt::Debug for Partitions<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitions")
            .field("gate", &self.shared.gate)
            .field("shares", &self.shared.shares)
            .finish()
    }
}
