//! The active policies.
//!
//! The table has an entry for each tier, so finding a policy is an index. The entry names the tier that serves its requests:
//! its own or, if `max_policies` were active already, the closest active one. It stays with that tier until the tier is
//! swept, even if room becomes free meanwhile: switching would discard the usage of its subjects.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::{Clock, Keyed, Moment, PenaltyBucket, Rule};

use crate::decision::Decision;
use crate::retained::RetainedBucket;
use crate::settings::Settings;
use crate::subject::Subject;
use crate::tiers::{TIERS, Tier};

/// A penalty bucket for each key.
pub(crate) struct SubjectLimits<K> {
    states: Keyed<K, RetainedBucket>,
    initial: u64,
    limit: u64,
    retention: Duration,
    lockout: Duration,
}

impl<K: Hash + Eq + Clone> SubjectLimits<K> {
    /// The states, as a limit by key.
    pub(crate) const fn states(&self) -> &Keyed<K, RetainedBucket> {
        &self.states
    }

    pub(crate) fn new(bucket: PenaltyBucket, settings: &Settings) -> Self {
        let bucket = bucket
            .lockout(settings.max_soft_violations, settings.lockout)
            .soft_window(settings.soft_window);
        let rule = RetainedBucket::new(bucket, settings.subject_idle);
        let (initial, limit) = (rule.initial(), rule.limit());
        let retention = rule.retention();
        let states = Keyed::<K, _>::builder(rule)
            .clock(settings.clock.clone())
            .max_keys(settings.max_subjects)
            .totals(settings.totals);
        let about = settings.about.iter();
        let states = about.fold(states, |states, (name, metadata)| match metadata {
            Some(metadata) => states.name(name).metadata(metadata.clone()),
            None => states.name(name),
        });
        let states = states.build();
        Self {
            states,
            initial,
            limit,
            retention,
            lockout: settings.lockout,
        }
    }

    pub(crate) fn evaluate(&self, key: &K) -> Decision {
        match self.states.try_acquire(key, 1) {
            Ok(_permit) => {
                let state = self.states.snapshot_of(key);
                // A subject without a state was evicted: its bucket is full.
                let left = state.map_or(self.initial, |state| state.available());
                Decision::allowed(left)
            }
            Err(denied) => Decision::refused(&denied, self.lockout),
        }
    }

    /// The most that one subject may use at once.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}

/// A policy in use.
pub(crate) struct Active {
    pub(crate) tier: Tier,
    limits: SubjectLimits<Subject>,
    last_used: AtomicU64,
    /// After this idle time, the buckets of all subjects are full.
    memory: Duration,
}

impl Active {
    fn new(tier: Tier, settings: &Settings) -> Self {
        let initial = settings.initial_tokens.unwrap_or(u64::MAX);
        let limits = SubjectLimits::new(tier.bucket(initial), settings);
        let refill = Duration::from_secs(tier.burst().div_ceil(tier.rps()));
        let penalties = settings.lockout.max(settings.soft_window);
        let memory = refill.max(penalties).max(limits.retention);
        Self {
            tier,
            limits,
            last_used: AtomicU64::new(0),
            memory,
        }
    }

    pub(crate) fn evaluate(&self, subject: &Subject, clock: &Clock) -> Decision {
        let decision = self.limits.evaluate(subject);
        // Read after the decision, so that it is no earlier than any state. A sweep relies on that, and does not look
        // before the caller has dropped its `Arc`.
        let now = clock.now().as_nanos();
        self.last_used.fetch_max(now, Ordering::Relaxed);
        decision
    }

    pub(crate) fn last_used(&self) -> Moment {
        Moment::from_nanos(self.last_used.load(Ordering::Relaxed))
    }

    pub(crate) fn subjects(&self) -> usize {
        self.limits.len()
    }
}

pub(crate) struct Table {
    served_by: [Option<Tier>; TIERS],
    active: [Option<Arc<Active>>; TIERS],
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            served_by: [None; TIERS],
            active: [const { None }; TIERS],
        }
    }

    /// The policy that serves `tier`, if there is one yet.
    pub(crate) fn find(&self, tier: Tier) -> Option<Arc<Active>> {
        let serving = self.served_by[tier.index()]?;
        self.active[serving.index()].clone()
    }

    /// The policy that serves `tier`, made active if it is not.
    pub(crate) fn find_or_activate(&mut self, tier: Tier, settings: &Settings) -> Arc<Active> {
        let known = self.served_by[tier.index()];
        let serving = known.unwrap_or_else(|| {
            if self.iter().count() < settings.max_policies {
                return tier;
            }
            self.closest(tier).unwrap_or(tier)
        });
        self.served_by[tier.index()] = Some(serving);
        let active = &mut self.active[serving.index()];
        let active = active.get_or_insert_with(|| Arc::new(Active::new(serving, settings)));
        Arc::clone(active)
    }

    /// The active tier closest to `tier`; among equally close ones, the stricter.
    fn closest(&self, tier: Tier) -> Option<Tier> {
        let others = self.iter().map(|active| active.tier);
        others.min_by_key(|other| (other.distance(tier), *other))
    }

    /// Removes the policies that no caller holds, that have been idle for `idle`, and whose subjects all have full buckets.
    pub(crate) fn sweep(&mut self, now: Moment, idle: Duration) -> Vec<Arc<Active>> {
        let mut swept = Vec::new();
        for entry in &mut self.active {
            // A caller that decides holds a clone, and the exclusive lock keeps others from cloning.
            let unused = |active: &mut Arc<Active>| {
                Arc::get_mut(active)
                    .is_some_and(|active| now.since(active.last_used()) > idle.max(active.memory))
            };
            swept.extend(entry.take_if(unused));
        }
        for serving in &mut self.served_by {
            serving.take_if(|tier| self.active[tier.index()].is_none());
        }
        swept
    }

    /// The active policies, by rate and burst.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Active> {
        self.active.iter().filter_map(Option::as_deref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::{Effective, Policy};

    #[test]
    fn a_policy_that_a_caller_holds_is_not_swept() {
        let Ok(Effective::Limited(tier)) = Policy::per_second(1.0).effective() else {
            panic!("it is limited");
        };
        let mut table = Table::new();
        let held = table.find_or_activate(tier, &Settings::default());
        let (much_later, idle) = (Moment::from_nanos(1 << 62), Duration::from_secs(1));
        assert!(table.sweep(much_later, idle).is_empty());
        assert!(table.find(tier).is_some());
        drop(held);
        assert_eq!(table.sweep(much_later, idle).len(), 1);
        assert!(table.find(tier).is_none());
    }
}
