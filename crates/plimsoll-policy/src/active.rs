//! The policies that are in use.
//!
//! There are as many places as there are tiers, so finding a policy is an index. A place says which tier serves
//! its requests: its own or, if all policies that may be active are, the closest of them. It then stays with
//! that one until that one is swept, even if there is room meanwhile: moving would leave behind what its subjects
//! have used.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::decision::Decision;
use super::settings::Settings;
use super::subject::Subject;
use super::tiers::{TIERS, Tier};
use super::tracked::Tracked;
use crate::{Clock, Keyed, Moment, PenaltyBucket};

/// One limit for each of many.
pub(super) struct Limits<K> {
    states: Keyed<K, Tracked>,
    at_first: u32,
    stays: Duration,
    lockout: Duration,
}

impl<K: Hash + Eq + Clone> Limits<K> {
    pub(super) fn new(bucket: PenaltyBucket, settings: &Settings) -> Self {
        let bucket = bucket
            .with_lockout(settings.max_soft_violations, settings.lockout)
            .with_soft_window(settings.soft_window);
        let rule = Tracked::new(bucket, settings.stale);
        let at_first = rule.at_first();
        let stays = rule.stays();
        let states = Keyed::<K, _>::builder(rule)
            .clock(settings.clock.clone())
            .max_keys(settings.max_subjects)
            .totals(false)
            .build();
        Self {
            states,
            at_first,
            stays,
            lockout: settings.lockout,
        }
    }

    pub(super) fn evaluate(&self, key: &K) -> Decision {
        match self.states.try_acquire(key, 1) {
            Ok(_permit) => {
                let state = self.states.snapshot_of(key);
                // Forgotten already: it is as good as new.
                let left = state.map_or(self.at_first.into(), |state| state.available());
                Decision::allowed(left)
            }
            Err(denied) => Decision::refused(&denied, self.lockout),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }
}

/// A policy that is in use.
pub(super) struct Active {
    pub(super) tier: Tier,
    limits: Limits<Subject>,
    last_used: AtomicU64,
    /// After so long nothing it remembers makes a difference.
    outlives: Duration,
}

impl Active {
    fn new(tier: Tier, settings: &Settings) -> Self {
        let initial = settings.initial_tokens.unwrap_or(u32::MAX);
        let limits = Limits::new(tier.bucket(initial), settings);
        let filled = Duration::from_secs(tier.burst().div_ceil(tier.rps()).into());
        let penalties = settings.lockout.max(settings.soft_window);
        let outlives = filled.max(penalties).max(limits.stays);
        Self {
            tier,
            limits,
            last_used: AtomicU64::new(0),
            outlives,
        }
    }

    pub(super) fn evaluate(&self, subject: &Subject, clock: &Clock) -> Decision {
        let decision = self.limits.evaluate(subject);
        // Asked for afterwards, so that it is no earlier than anything that is remembered. Sweeps depend on it,
        // but do not look before this is let go.
        let now = clock.now().as_nanos();
        self.last_used.fetch_max(now, Ordering::Relaxed);
        decision
    }

    pub(super) fn last_used(&self) -> Moment {
        Moment::from_nanos(self.last_used.load(Ordering::Relaxed))
    }

    pub(super) fn subjects(&self) -> usize {
        self.limits.len()
    }
}

pub(super) struct Table {
    served_by: [Option<Tier>; TIERS],
    active: [Option<Arc<Active>>; TIERS],
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            served_by: [None; TIERS],
            active: [const { None }; TIERS],
        }
    }

    /// What serves `tier`, if anything does yet.
    pub(super) fn find(&self, tier: Tier) -> Option<Arc<Active>> {
        let serving = self.served_by[tier.index()]?;
        self.active[serving.index()].clone()
    }

    /// What serves `tier` from now on.
    pub(super) fn find_or_begin(&mut self, tier: Tier, settings: &Settings) -> Arc<Active> {
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

    /// The policy closest to `tier`; of several, the one that admits least.
    fn closest(&self, tier: Tier) -> Option<Tier> {
        let others = self.iter().map(|active| active.tier);
        others.min_by_key(|other| (other.distance(tier), *other))
    }

    /// Takes out what nobody uses now or has used for `idle`, and that remembers nothing that matters.
    pub(super) fn sweep(&mut self, now: Moment, idle: Duration) -> Vec<Arc<Active>> {
        let mut swept = Vec::new();
        for place in &mut self.active {
            // Who uses one now holds it too, and nobody else can come to hold it.
            let unused = |active: &mut Arc<Active>| {
                Arc::get_mut(active)
                    .is_some_and(|active| now.since(active.last_used()) > idle.max(active.outlives))
            };
            swept.extend(place.take_if(unused));
        }
        for serving in &mut self.served_by {
            serving.take_if(|tier| self.active[tier.index()].is_none());
        }
        swept
    }

    /// The active policies, by rate and burst.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Active> {
        self.active.iter().filter_map(Option::as_deref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::policy::tiers::InForce;

    #[test]
    fn a_policy_that_somebody_holds_is_not_swept() {
        let Ok(InForce::Limited(tier)) = Policy::per_second(1.0).in_force() else {
            panic!("it is limited");
        };
        let mut table = Table::new();
        let held = table.find_or_begin(tier, &Settings::default());
        let (much_later, idle) = (Moment::from_nanos(1 << 62), Duration::from_secs(1));
        assert!(table.sweep(much_later, idle).is_empty());
        assert!(table.find(tier).is_some());
        drop(held);
        assert_eq!(table.sweep(much_later, idle).len(), 1);
        assert!(table.find(tier).is_none());
    }
}
