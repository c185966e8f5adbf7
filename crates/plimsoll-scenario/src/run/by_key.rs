//! Limiters that need a key: partitions of one limit, and policies of operations.

use std::sync::Arc;

use plimsoll::{
    Acquire, Clock, Demand, Denied, Gate, GateBuilder, Limiter, Partitions, PerKey, Permit, Rule,
    Snapshot,
};
use plimsoll_policy::PolicyKeys;
use plimsoll_spec::{InvalidSpec, Kind, Queue, Shared};

use super::limiters::{Keys, Subject, Unbuilt};

/// Builds a limit of these kinds. `None` for other kinds.
pub(crate) fn build(
    spec: &plimsoll_spec::Limiter,
    clock: &Clock,
) -> Option<Result<Subject, Unbuilt>> {
    let built = match &spec.kind {
        Kind::Partitions(partitions) => partitions.rule().and_then(|rule| match rule {
            Shared::Concurrency(rule) => shares(rule, partitions, spec, clock),
            Shared::Adaptive(rule) => shares(*rule, partitions, spec, clock),
            _ => unreachable!("there are no others"),
        }),
        Kind::Policies(policies) => {
            let name = spec.common.name.as_deref().unwrap_or_default();
            let most = spec.common.max_keys;
            let keys = policies.by_key(name, None, |builder| {
                let builder = builder.clock(clock.clone());
                match most {
                    Some(most) => {
                        builder.max_subjects(usize::try_from(most.0).unwrap_or(usize::MAX))
                    }
                    None => builder,
                }
            });
            keys.map(|keys| Box::new(keys) as Box<dyn Keys>)
        }
        _ => return None,
    };
    let subject = |keys| Subject {
        keys: Some(keys),
        ..Subject::only(
            Arc::new(Gate::new(plimsoll::Concurrency::new(1))),
            &spec.kind,
        )
    };
    Some(built.map(subject).map_err(Unbuilt::Invalid))
}

fn shares<R: Rule>(
    rule: R,
    partitions: &plimsoll_spec::Partitions,
    spec: &plimsoll_spec::Limiter,
    clock: &Clock,
) -> Result<Box<dyn Keys>, InvalidSpec> {
    let builder = Gate::builder(rule).clock(clock.clone());
    let queue = spec.common.queue.as_ref().map(Queue::build);
    let builder = queue.into_iter().fold(builder, GateBuilder::queue);
    let name = spec.common.name.as_deref();
    let gate = name.into_iter().fold(builder, GateBuilder::name).build();
    let shares = Partitions::try_new(gate, partitions.weights())?;
    shares.lend_after(partitions.lend_after.into());
    Ok(Box::new(match &partitions.others {
        Some(others) => shares.try_others(&others.0)?,
        None => shares,
    }))
}

impl<R: Rule> Keys for Partitions<R> {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        PerKey::try_acquire(self, key, demand)
    }

    fn acquire<'a>(&'a self, key: &str, demand: Demand) -> Acquire<'a> {
        let acquire = PerKey::acquire_owned(self, key, demand);
        Acquire::from_future(async move {
            let permit = acquire.await?;
            Ok(permit)
        })
    }

    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        self.of_key(key)?.estimate(demand)
    }

    fn snapshot(&self, key: Option<&str>) -> Snapshot {
        let of_key = key.and_then(|key| self.snapshot_of(key));
        of_key.unwrap_or_else(|| self.gate().snapshot())
    }
}

impl Keys for PolicyKeys {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        PerKey::try_acquire(self, key, demand)
    }

    fn acquire<'a>(&'a self, key: &str, demand: Demand) -> Acquire<'a> {
        let acquire = PerKey::acquire_owned(self, key, demand);
        Acquire::from_future(async move {
            let permit = acquire.await?;
            Ok(permit)
        })
    }

    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, key, demand)
    }

    fn snapshot(&self, key: Option<&str>) -> Snapshot {
        let Some(key) = key else {
            return Self::snapshot(self);
        };
        let new = || {
            let standing = PerKey::standing(self, key);
            Snapshot::of(standing.limit, standing.remaining.unwrap_or(standing.limit))
        };
        self.snapshot_of(key).unwrap_or_else(new)
    }
}
