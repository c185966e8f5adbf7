//! Partitions as a limit with keys: the key is the name of a partition.

use std::sync::Arc;

use super::part::lock;
use super::{Partition, Partitions};
use crate::limiter::Target;
use crate::together::{may_wait, reserve_shared};
use crate::{
    Acquire, Clock, Demand, Denied, InvalidLimit, Limiter, LimiterExt, Metadata, PerKey, Permit,
    Reason, Reservation, Rule, Snapshot, Standing,
};

impl<R: Rule> Partitions<R> {
    /// Assigns keys that name no partition to the partition `name`, for demands [by key](PerKey). Default: such keys
    /// are refused with [`Reason::NoKey`].
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Partitions, PerKey, Reason};
    ///
    /// let gate = Gate::new(Concurrency::new(10));
    /// let shares = Partitions::try_new(gate, [("live", 7), ("batch", 3)])?;
    /// let denied = shares.try_acquire("reports", 1.into()).unwrap_err();
    /// assert_eq!(denied.reason(), Reason::NoKey);
    ///
    /// let shares = shares.others("batch");
    /// let _permit = shares.try_acquire("reports", 2.into())?;
    /// assert_eq!(shares.snapshot_of("batch").unwrap().in_use(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such partition. [`try_others`](Self::try_others) returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn others(self, name: &str) -> Self {
        match self.try_others(name) {
            Ok(partitions) => partitions,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Like [`others`](Self::others), but returns an error instead of panicking. For names from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such partition.
    pub fn try_others(mut self, name: &str) -> Result<Self, InvalidLimit> {
        let known = self.position(name);
        let unknown = || InvalidLimit::new("others", name, "the name of a partition");
        self.others = Some(known.ok_or_else(unknown)?);
        Ok(self)
    }

    /// Changes the weights, while the partitions are in use. Partitions that are not named keep theirs.
    ///
    /// A partition that holds more than its new share keeps its permits until they are returned.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Partitions};
    ///
    /// let shares = Partitions::try_new(Gate::new(Concurrency::new(10)), [("live", 7), ("batch", 3)])?;
    /// shares.set_weights([("live", 1), ("batch", 1)])?;
    /// assert_eq!(shares.snapshot_of("batch").unwrap().limit(), 5);
    /// assert!(shares.set_weights([("night", 1)]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such partition, or a weight is 0. Nothing is then changed.
    pub fn set_weights<'a>(
        &self,
        weights: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<(), InvalidLimit> {
        let weight = |(name, weight): (&str, u32)| match self.position(name) {
            None => Err(InvalidLimit::new("name", name, "the name of a partition")),
            Some(_) if weight == 0 => Err(InvalidLimit::new("weight", weight, "at least 1")),
            Some(index) => Ok((index, weight)),
        };
        let weights = weights
            .into_iter()
            .map(weight)
            .collect::<Result<Vec<_>, _>>()?;
        lock(&self.shared.shares).set_weights(&weights);
        Ok(())
    }

    /// Returns the snapshot of the partition of a key, such as its name.
    #[must_use]
    pub fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        self.of_key(key).ok().map(Limiter::snapshot)
    }

    /// Returns the names of the partitions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.shared.names.iter();
        names.filter_map(|name| name.as_str())
    }

    /// Returns the partition of a key.
    ///
    /// # Errors
    ///
    /// Returns an error if the key names no partition, and no partition is set for [others](Self::others).
    pub fn of_key(&self, key: &str) -> Result<&Partition<R>, Denied> {
        let index = self.position(key).or(self.others);
        let part = index.and_then(|index| self.parts.get(index));
        part.ok_or_else(|| {
            let denied = Denied::new(Reason::NoKey);
            match self.shared.gate.name() {
                Some(name) => denied.with_limiter(name),
                None => denied,
            }
        })
    }
}

impl<R: Rule> PerKey<str> for Partitions<R> {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.of_key(key)?.try_acquire(demand)
    }

    fn acquire_owned(&self, key: &str, demand: Demand) -> Acquire<'static> {
        match self.of_key(key) {
            Ok(part) => part.acquire_owned(demand),
            Err(denied) => Acquire::ready(Err(denied)),
        }
    }

    fn reserve_owned(&self, key: &str, demand: Demand) -> Result<Reservation<'static>, Denied> {
        reserve_shared(Arc::new(self.of_key(key)?.clone()), demand)
    }

    fn undo(&self, key: &str, permit: Permit<'_>) {
        if let Ok(part) = self.of_key(key) {
            part.undo(permit);
        }
    }

    fn charge(&self, key: &str, cost: u64) {
        if let Ok(part) = self.of_key(key) {
            part.charge(cost);
        }
    }

    fn clock(&self) -> Option<&Clock> {
        Some(Limiter::clock(&self.shared.gate))
    }

    fn standing(&self, key: &str) -> Standing {
        match self.of_key(key) {
            Ok(part) => part.standing(),
            Err(_) => Standing::new(0, 0).returns(true),
        }
    }

    fn promise(&self) -> Standing {
        self.shared.gate.standing()
    }

    fn has_queue(&self) -> bool {
        may_wait(&self.shared.gate)
    }

    fn target(&self, key: &str) -> Option<Result<Target, Denied>> {
        let part = self.of_key(key).cloned();
        Some(part.map(|part| Target::limiter(Arc::new(part))))
    }

    fn name(&self) -> Option<&str> {
        self.shared.gate.name()
    }

    fn metadata(&self) -> Option<&Metadata> {
        Limiter::metadata(&self.shared.gate)
    }
}
