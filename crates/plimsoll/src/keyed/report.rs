//! Snapshots of a keyed limit.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash};

use super::Keyed;
use super::key_gate::Lease;
use super::step::{Seen, Step};
use super::table::{Found, Table, View};
use super::wide::What;
use crate::gate::Counted;
use crate::{Moment, Packed, Rule, Snapshot};

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Returns the snapshot of one key. `None` if it has no state.
    ///
    /// Grants and refusals are counted for all keys together: see [`snapshot`](Self::snapshot).
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_hour(10)));
    /// assert!(per_tenant.snapshot_of("red").is_none());
    /// per_tenant.try_acquire("red", 4)?;
    /// assert_eq!(per_tenant.snapshot_of("red").map(|red| red.available()), Some(6));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn snapshot_of<Q>(&self, key: &Q) -> Option<Snapshot>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        let step = shared.view(key, now, |rule, state, seen| {
            seen.known.then(|| snapshot(rule, state, seen.now))
        });
        match step {
            Step::Done(seen) => seen,
            Step::Gate(gate) => Some(snapshot_of_gate(&gate)),
        }
    }

    /// Returns a snapshot of all keys together: the sums in use and waiting, and the numbers of granted and refused
    /// demands. The limit and the available permits are those of one idle key.
    ///
    /// It visits every key, one shard at a time, so the sums are not those of a single moment.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed};
    ///
    /// let per_user: Keyed<String, _> = Keyed::new(Concurrency::new(2));
    /// let (ann, bob) = (per_user.try_acquire("ann", 2)?, per_user.try_acquire("bob", 1)?);
    /// assert!(per_user.try_acquire("ann", 1).is_err());
    /// let all = per_user.snapshot();
    /// assert_eq!((all.in_use(), all.granted_total(), all.denied_total()), (3, 2, 1));
    /// # drop((ann, bob));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        let mut sum = {
            let rule = &shared.shards[0].lock().rule;
            Snapshot {
                in_use: 0,
                ..snapshot(&**rule, &rule.fresh_key(now), now)
            }
        };
        let mut counted = Counted::default();
        for shard in 0..shared.shards.len() {
            let mut gates = Vec::new();
            self.each(
                shard,
                |_, one| sum.in_use = sum.in_use.saturating_add(one.in_use),
                |_, gate| gates.push(gate),
            );
            for gate in gates {
                let one = gate.snapshot();
                sum.in_use = sum.in_use.saturating_add(one.in_use);
                sum.queued += one.queued;
                sum.waiters += one.waiters;
                counted.add(gate.counted());
            }
        }
        // Read last: a gate that is forgotten meanwhile adds what it has counted here.
        counted.add(shared.gates.room.counted());
        sum.evicted = counted.evicted;
        sum.cancelled = counted.cancelled;
        if shared.gates.totals.are_counted() {
            let (granted, denied) = shared.gates.totals.sum();
            sum.granted = (granted + counted.granted).saturating_sub(counted.undone);
            sum.denied = denied + counted.denied;
        }
        sum
    }

    /// Returns the `most` keys that are nearest to their limits, the nearest first. It visits every key.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<&str, _> = Keyed::new(FixedWindow::new(Quota::per_hour(10)));
    /// for (tenant, cost) in [("red", 9), ("green", 1), ("blue", 5)] {
    ///     per_tenant.try_acquire(&tenant, cost)?;
    /// }
    /// let nearest: Vec<&str> = per_tenant.top(2).into_iter().map(|(tenant, _)| tenant).collect();
    /// assert_eq!(nearest, ["red", "blue"]);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<(K, Snapshot)>
    where
        K: Clone,
    {
        let mut top: Vec<(K, Snapshot)> = Vec::new();
        let nearest_first = |(_, one): &(K, Snapshot), (_, other): &(K, Snapshot)| {
            let order = other.saturation().partial_cmp(&one.saturation());
            order.unwrap_or(Ordering::Equal)
        };
        // Sorted only occasionally, so that keys that are far from their limits cost little.
        let keep = most.saturating_mul(2).max(64);
        let mut see = |key: &K, snapshot: Snapshot| {
            top.push((key.clone(), snapshot));
            if top.len() >= keep {
                top.sort_by(nearest_first);
                top.truncate(most);
            }
        };
        for shard in 0..self.shared.shards.len() {
            let mut gates = Vec::new();
            self.each(shard, &mut see, |key, gate| gates.push((key.clone(), gate)));
            for (key, gate) in gates {
                see(&key, snapshot_of_gate(&gate));
            }
        }
        top.sort_by(nearest_first);
        top.truncate(most);
        top
    }

    /// Visits every key of a shard. Gates must be read after this has returned, when the lock of the shard is free: a
    /// thread that holds the lock of a gate may be about to lock the same shard.
    fn each(
        &self,
        shard: usize,
        mut state: impl FnMut(&K, Snapshot),
        mut gate: impl FnMut(&K, Lease<R>),
    ) {
        let now = self.shared.gates.clock.precise_now();
        let table = self.shared.shards[shard].lock();
        table.each(now, |key, view| match view {
            View::State(rule, one) => state(key, snapshot(rule, one, now)),
            View::Gate(held) => gate(key, Lease::new(held)),
        });
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// Looks at the state of a key, or at that of a new one.
    pub(super) fn view<Q, T>(
        &mut self,
        hash: u64,
        key: &Q,
        now: Moment,
        see: impl FnOnce(&R, &R::State, Seen) -> T,
    ) -> Step<T, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut seen = Seen {
            now,
            known: true,
            closed: self.closed,
        };
        match self.find(hash, key) {
            Some(Found::Word(rule, word)) => {
                Step::Done(see(rule, &R::Fast::unpack(rule, word.get(), now), seen))
            }
            Some(Found::Wide(rule, wide)) => match &wide.what {
                What::State(state) => {
                    seen.now = now.max(wide.used);
                    Step::Done(see(wide.own.as_deref().unwrap_or(rule), state, seen))
                }
                What::Gate(held) => Step::Gate(Lease::new(held)),
            },
            None => {
                seen.known = false;
                let rule = self.rule_of(key);
                Step::Done(see(rule, &rule.fresh_key(now), seen))
            }
        }
    }
}

fn snapshot<R: Rule>(rule: &R, state: &R::State, now: Moment) -> Snapshot {
    Snapshot {
        limit: rule.limit(),
        available: rule.available(state, now),
        in_use: rule.in_use(state, now),
        ..Snapshot::default()
    }
}

/// Grants and refusals are counted for all keys together.
fn snapshot_of_gate<R: Rule>(gate: &Lease<R>) -> Snapshot {
    Snapshot {
        granted: 0,
        denied: 0,
        ..gate.snapshot()
    }
}
