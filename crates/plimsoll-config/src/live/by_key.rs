//! Limiters that need a key: partitions of one limit, and policies of operations.

use std::sync::Arc;

use plimsoll::{
    Clock, Concurrency, Demand, Denied, Gate, Grant, InvalidLimit, Limiter, LimiterExt, Moment,
    Outcome, Partitions, PerKey, Queue, Rule, Snapshot,
};
use plimsoll_policy::{PolicyKeys, SubjectState};
use plimsoll_spec::{AdaptiveRule, InvalidSpec, Kind, Partitions as Spec, Policies, Shared};

use super::gates::{Build, Built};
use super::in_place::{ChangeInPlace, in_memory};
use super::keyed::Keys;
use super::saved::Saved;
use super::version::Inner;
use crate::check::Definition;

impl Build<'_> {
    /// Partitions of one limit.
    pub(super) fn partitions(&self, spec: &Spec) -> Result<Built, InvalidLimit> {
        match spec.rule().map_err(InvalidSpec::into_invalid)? {
            Shared::Concurrency(rule) => shares(self.gate(rule), spec),
            Shared::Adaptive(rule) => shares(self.gate(*rule), spec),
            _ => Err(InvalidLimit::new("limit", "unknown", "a limit")),
        }
    }

    /// Policies of operations.
    pub(super) fn policies(&self, spec: &Policies) -> Result<Built, InvalidLimit> {
        let most = self.definition.limiter.common.max_keys;
        let keys = spec.by_key(self.definition.name(), self.about(), |builder| {
            let builder = builder.clock(self.clock.clone());
            match most {
                Some(most) => builder.max_subjects(usize::try_from(most.0).unwrap_or(usize::MAX)),
                None => builder,
            }
        });
        let keys = Arc::new(keys.map_err(InvalidSpec::into_invalid)?);
        Ok(Built {
            change: Arc::new(OfPolicies(Arc::clone(&keys))),
            inner: Inner::Keys(keys),
        })
    }
}

fn shares<R: Resize>(gate: Gate<R>, spec: &Spec) -> Result<Built, InvalidLimit> {
    let shares = Partitions::try_new(gate, spec.weights())?;
    shares.lend_after(spec.lend_after.into());
    let shares = match &spec.others {
        Some(others) => shares.try_others(&others.0)?,
        None => shares,
    };
    Ok(Built {
        inner: Inner::Keys(Arc::new(shares.clone())),
        change: Arc::new(Shares(shares, spec.clone())),
    })
}

/// A rule that can be partitioned, and perhaps resized.
trait Resize: Rule + Sized {
    /// Whether an adaptive algorithm finds the limit.
    const LEARNS: bool;

    fn resize(gate: &Gate<Self>, to: &Spec);
}

impl Resize for Concurrency {
    const LEARNS: bool = false;

    fn resize(gate: &Gate<Self>, to: &Spec) {
        if let Some(limit) = to.limit {
            // It was checked that it is not 0.
            let _ = gate.resize(limit.0);
        }
    }
}

impl Resize for AdaptiveRule {
    const LEARNS: bool = true;

    fn resize(_gate: &Gate<Self>, _to: &Spec) {}
}

/// Limits, weights and queues of partitions can be changed in place; the algorithm and the names of partitions cannot.
struct Shares<R: Rule>(Partitions<R>, Spec);

impl<R: Resize> ChangeInPlace for Shares<R> {
    fn is_possible(&self, to: &Definition) -> bool {
        let Kind::Partitions(to_spec) = &to.limiter.kind else {
            return false;
        };
        let from = &self.1;
        let names = from.weights().map(|(name, _)| name);
        in_memory(to, true)
            && names.eq(to_spec.weights().map(|(name, _)| name))
            && (&from.others, &from.adaptive) == (&to_spec.others, &to_spec.adaptive)
            && from.limit.is_some() == to_spec.limit.is_some()
    }

    fn change(&self, _from: &Definition, to: &Definition) {
        if let Kind::Partitions(to) = &to.limiter.kind {
            R::resize(self.0.gate(), to);
            // The names are the same, and no weight is 0.
            let _ = self.0.set_weights(to.weights());
            self.0.lend_after(to.lend_after.into());
        }
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.gate().set_queue(queue);
    }

    fn pause(&self) {
        self.0.gate().pause();
    }

    fn resume(&self) {
        self.0.gate().resume();
    }

    fn save(&self, limiter: &str, _: &Kind, part: usize) -> Option<Vec<Saved>> {
        (part == 0).then(|| {
            let seen = self.0.gate().snapshot();
            let mut saved = Saved::left_out(limiter, seen.in_use(), 0);
            saved.extend(R::LEARNS.then(|| Saved::Learned {
                limiter: limiter.to_owned(),
                limit: seen.limit(),
            }));
            saved
        })
    }
}

impl<R: Rule> Keys for Partitions<R> {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        self.of_key(key)?.estimate(demand)
    }

    fn snapshot(&self) -> Snapshot {
        self.gate().snapshot()
    }

    fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        Self::snapshot_of(self, key)
    }

    fn each_used(&self, see: &mut dyn FnMut(&str, u64)) {
        for name in self.names() {
            see(name, self.snapshot_of(name).map_or(0, |seen| seen.in_use()));
        }
    }

    fn give_back(&self, key: &str, grant: Grant, outcome: Outcome) {
        if let Ok(part) = self.of_key(key)
            && let Some(source) = part.source()
        {
            source.give_back(grant, outcome);
        }
    }

    fn its_clock(&self) -> &Clock {
        Limiter::clock(self.gate())
    }
}

/// Usage is carried over to the policies that replace these; lockouts end.
struct OfPolicies(Arc<PolicyKeys>);

impl ChangeInPlace for OfPolicies {
    fn pause(&self) {
        self.0.pause();
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn save(&self, limiter: &str, kind: &Kind, part: usize) -> Option<Vec<Saved>> {
        if part > self.0.parts() {
            return None;
        }
        let mut saved = Vec::new();
        match part.checked_sub(1) {
            None => saved.push(Saved::Keys {
                limiter: limiter.to_owned(),
                kind: kind.clone(),
                // The states of subjects have moments of their own.
                began: Moment::ORIGIN,
            }),
            Some(part) => self.0.kept(part, |key, state| {
                saved.push(Saved::Subject(key.clone(), *state));
            }),
        }
        Some(saved)
    }

    fn restore_subject(&self, key: &str, state: SubjectState) -> bool {
        self.0.restore(key, state)
    }
}

impl Keys for PolicyKeys {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, key, demand)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        Self::snapshot_of(self, key)
    }

    fn each_used(&self, see: &mut dyn FnMut(&str, u64)) {
        Self::each_used(self, see);
    }

    /// Does nothing: permits of rates are not returned.
    fn give_back(&self, _key: &str, _grant: Grant, _outcome: Outcome) {}

    fn its_clock(&self) -> &Clock {
        match PerKey::<str>::clock(self) {
            Some(clock) => clock,
            None => unreachable!("policies have a clock"),
        }
    }
}
