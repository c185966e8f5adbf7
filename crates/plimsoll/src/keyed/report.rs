//! Looking at a keyed limit.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash};

use super::Keyed;
use super::table::{Found, View};
use super::wide::What;
use crate::{Moment, Rule, Snapshot};

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// What one key looks like now; `None` if it is not known, and so as good as new.
    pub fn snapshot_of<Q>(&self, key: &Q) -> Option<Snapshot>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, now);
        match table.find(hash, key)? {
            Found::Word(rule, word) => Some(snapshot(rule, &rule.unpack(*word, now), now)),
            Found::Wide(rule, wide) => match &wide.what {
                What::State(state) => Some(snapshot(rule, state, now)),
                What::Gate { gate, .. } => Some(gate.snapshot()),
            },
        }
    }

    /// All keys together: what is in use and queued, and how many demands were granted and refused. The limit
    /// and what is available are those of one key that nobody uses.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = &*self.shared;
        let (granted, denied) = shared.totals.sum();
        let limit = u64::from(shared.shards[0].lock().rule.limit());
        let mut sum = Snapshot {
            limit,
            available: limit,
            granted,
            denied,
            ..Snapshot::default()
        };
        self.each(|_, one| {
            sum.in_use = sum.in_use.saturating_add(one.in_use);
            sum.queued += one.queued;
            sum.waiters += one.waiters;
            sum.evicted += one.evicted;
            sum.cancelled += one.cancelled;
        });
        sum
    }

    /// The `most` keys that are nearest to their limits, the nearest first.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<(K, Snapshot)>
    where
        K: Clone,
    {
        let mut top: Vec<(K, Snapshot)> = Vec::new();
        self.each(|key, snapshot| {
            let full = top.len() == most;
            let last = top.last().map_or(-1.0, |(_, last)| last.saturation());
            if most == 0 || (full && snapshot.saturation() <= last) {
                return;
            }
            if full {
                top.pop();
            }
            let nearer = |(_, other): &(K, Snapshot)| {
                other.saturation().partial_cmp(&snapshot.saturation()) != Some(Ordering::Less)
            };
            let at = top.partition_point(nearer);
            top.insert(at, (key.clone(), snapshot));
        });
        top
    }

    /// Calls `see` with every key, one shard after the other.
    fn each(&self, mut see: impl FnMut(&K, Snapshot)) {
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        for shard in &shared.shards {
            let table = shard.lock();
            table.each(now, |key, view| match view {
                View::State(state) => see(key, snapshot(&*table.rule, state, now)),
                View::Gate(gate) => see(key, gate.snapshot()),
            });
        }
    }
}

fn snapshot<R: Rule>(rule: &R, state: &R::State, now: Moment) -> Snapshot {
    Snapshot {
        limit: u64::from(rule.limit()),
        available: u64::from(rule.available(state, now)),
        in_use: rule.in_use(state, now),
        ..Snapshot::default()
    }
}
