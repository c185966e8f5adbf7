//! Builds the limiter under test from its description.

use std::sync::Arc;

use plimsoll::{
    Acquire, All, Carry, Clock, Concurrency, Demand, Denied, Gate, GateBuilder, InvalidLimit,
    Keyed, KeyedBuilder, Limiter, Permit, Rule, Snapshot,
};
use plimsoll_spec::{AdaptiveRule, InvalidSpec, Kind, Memory, Queue, RateRule, Step, WithRule};

use super::{by_key, machine};
use crate::spec::members;

/// A limiter under test, with the operations that `dyn Limiter` does not have.
pub(crate) struct Subject {
    pub(crate) limiter: Arc<dyn Limiter>,
    /// The operations of a gate. `None` for `all`, which is not a gate.
    pub(crate) controls: Option<Box<dyn Controls>>,
    /// The limiters of the keys, if the limiter is keyed. Then `limiter` is that of requests without a key.
    pub(crate) keys: Option<Box<dyn Keys>>,
    /// Changes the rule to another of the same kind.
    pub(crate) change: Box<Change>,
    /// The description of the limiter.
    pub(crate) kind: Kind,
    /// Subscribes to its events, by their words.
    pub(crate) listen: Option<Box<Listen>>,
    /// Sets the usage that a limit on memory or processor time measures.
    pub(crate) sample: Option<Box<Sample>>,
}

/// The words of events that have not been read, in order.
pub(crate) type Heard = Box<dyn Iterator<Item = &'static str>>;
pub(crate) type Listen = dyn Fn() -> Heard;
pub(crate) type Sample = dyn Fn(&Memory);

/// The largest number of events between two steps.
const EVENTS: usize = 4096;

impl Subject {
    /// A limiter without keys that is not a gate.
    pub(crate) fn only(limiter: Arc<dyn Limiter>, kind: &Kind) -> Self {
        Self {
            limiter,
            controls: None,
            keys: None,
            change: Box::new(|_, _| Ok(())),
            kind: kind.clone(),
            listen: None,
            sample: None,
        }
    }
}

pub(crate) type Change = dyn Fn(&Kind, Carry) -> Result<(), InvalidLimit>;

/// The operations of every gate, independent of its rule.
pub(crate) trait Controls {
    fn take_up_to(&self, cost: u64) -> Permit<'_>;
    fn add(&self, tokens: u64);
    fn reset(&self);
    fn set_queue_bound(&self, bound: u64);
}

impl<R: Rule> Controls for Gate<R> {
    fn take_up_to(&self, cost: u64) -> Permit<'_> {
        Self::take_up_to(self, cost)
    }

    fn add(&self, tokens: u64) {
        Self::add(self, tokens);
    }

    fn reset(&self) {
        Self::reset(self);
    }

    fn set_queue_bound(&self, bound: u64) {
        Self::set_queue_bound(self, bound);
    }
}

/// The reason why a limiter was not built.
#[derive(Debug)]
pub(crate) enum Unbuilt {
    /// The limiter does not exist yet. The word names it in the counts.
    NotYet(&'static str),
    /// The limiter refuses its numbers.
    Invalid(InvalidSpec),
}

impl From<InvalidSpec> for Unbuilt {
    fn from(invalid: InvalidSpec) -> Self {
        Self::Invalid(invalid)
    }
}

/// Builds the limiter that a scenario describes, on the clock of the scenario.
pub(crate) fn build(spec: &plimsoll_spec::Limiter, clock: &Clock) -> Result<Subject, Unbuilt> {
    if let Some(subject) = machine::build(spec, clock).or_else(|| by_key::build(spec, clock)) {
        return subject;
    }
    match spec.kind.with_rule(Build { spec, clock })? {
        Some(subject) => Ok(subject),
        None => all(spec, clock),
    }
}

/// Builds the limiter of a rule, with everything that a description may add to it.
struct Build<'a> {
    spec: &'a plimsoll_spec::Limiter,
    clock: &'a Clock,
}

impl Build<'_> {
    fn subject<R: Rule>(
        &self,
        rule: R,
        keys: Option<Box<dyn Keys>>,
        change: fn(&Gate<R>, &Kind, Carry) -> Result<(), InvalidLimit>,
    ) -> Subject {
        let common = &self.spec.common;
        let builder = Gate::builder(rule).clock(self.clock.clone());
        let queue = common.queue.as_ref().map(Queue::build);
        let builder = queue.into_iter().fold(builder, GateBuilder::queue);
        let name = common.name.as_deref();
        let gate = name.into_iter().fold(builder, GateBuilder::name).build();
        let feed = gate.clone();
        let of_gate = move || -> Heard {
            let mut events = feed.subscribe(EVENTS);
            // The initial limit is not a change.
            events.by_ref().for_each(drop);
            Box::new(events.map(|event| event.kind.as_str()))
        };
        let of_keys = keys.as_ref().and_then(|keys| keys.listen());
        Subject {
            controls: Some(Box::new(gate.clone())),
            keys,
            listen: of_keys.or(Some(Box::new(of_gate))),
            change: {
                let gate = gate.clone();
                Box::new(move |kind, carry| change(&gate, kind, carry))
            },
            ..Subject::only(Arc::new(gate), &self.spec.kind)
        }
    }

    fn keys<R: Rule + Clone>(&self, rule: &R) -> Option<Box<dyn Keys>> {
        let common = &self.spec.common;
        let builder = Keyed::<String, R>::builder(rule.clone()).clock(self.clock.clone());
        let queue = common.queue.as_ref().map(Queue::build);
        let builder = queue.into_iter().fold(builder, KeyedBuilder::queue);
        let name = common.name.as_deref();
        let builder = name.into_iter().fold(builder, KeyedBuilder::name);
        let most = common
            .max_keys
            .map(|most| usize::try_from(most.0).unwrap_or(usize::MAX));
        let builder = most.into_iter().fold(builder, KeyedBuilder::max_keys);
        common.keyed.then(|| Box::new(builder.build()) as _)
    }
}

impl WithRule for Build<'_> {
    type Out = Subject;

    fn rate<R: RateRule>(self, rule: R) -> Subject {
        let keys = self.keys(&rule);
        self.subject(rule, keys, |gate, kind, carry| {
            if let Some(rule) = kind
                .any_rate()
                .transpose()
                .map_err(InvalidSpec::into_invalid)?
                && let Some(rule) = R::from_any(rule)
            {
                gate.replace(rule, carry);
            }
            Ok(())
        })
    }

    fn concurrency(self, rule: Concurrency) -> Subject {
        let keys = self.keys(&rule);
        self.subject(rule, keys, |gate, kind, _| match kind {
            Kind::Concurrency { limit, .. } => gate.resize(limit.0),
            _ => Ok(()),
        })
    }

    fn adaptive(self, rule: AdaptiveRule) -> Subject {
        let keys = self.keys(&rule);
        self.subject(rule, keys, |_, _, _| Ok(()))
    }
}

fn all(spec: &plimsoll_spec::Limiter, clock: &Clock) -> Result<Subject, Unbuilt> {
    let member = |(index, member)| match build(member, clock) {
        Ok(subject) => Ok(subject.limiter),
        Err(Unbuilt::Invalid(invalid)) => {
            let invalid = invalid.under(Step::Index(index));
            Err(invalid.under(Step::Key("of")).into())
        }
        Err(not_yet) => Err(not_yet),
    };
    let members = members(spec).enumerate().map(member);
    let members = members.collect::<Result<Vec<_>, _>>()?;
    if spec.common.keyed {
        return Err(Unbuilt::NotYet("keyed"));
    }
    if spec.common.queue.is_some() {
        return Err(Unbuilt::NotYet("queue of all"));
    }
    let all = All::try_new(members).map_err(InvalidSpec::from)?;
    let name = spec.common.name.as_deref();
    let all = name.into_iter().fold(all, All::with_name);
    Ok(Subject::only(Arc::new(all), &spec.kind))
}

/// The operations of a keyed limiter for one key.
pub(crate) trait Keys {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied>;
    fn acquire<'a>(&'a self, key: &str, demand: Demand) -> Acquire<'a>;
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied>;
    /// Takes up to `cost` permits of a key. `None` if the limiter does not support it.
    fn take_up_to(&self, key: &str, cost: u64) -> Option<Permit<'_>> {
        let _ = (key, cost);
        None
    }
    /// Forgets a key. Returns false if the limiter does not support it.
    fn forget(&self, key: &str) -> bool {
        let _ = key;
        false
    }
    /// Subscribes to the events of all keys.
    fn listen(&self) -> Option<Box<Listen>> {
        None
    }
    /// The state of a key. An unknown key has the state of a new one.
    fn snapshot(&self, key: Option<&str>) -> Snapshot;
}

impl<R: Rule + Clone> Keys for Keyed<String, R> {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, key, demand)
    }

    fn acquire<'a>(&'a self, key: &str, demand: Demand) -> Acquire<'a> {
        let key = key.to_owned();
        Acquire::from_future(async move { self.acquire(key.as_str(), demand).await })
    }

    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, key, demand)
    }

    fn take_up_to(&self, key: &str, cost: u64) -> Option<Permit<'_>> {
        Some(Self::take_up_to(self, key, cost))
    }

    fn forget(&self, key: &str) -> bool {
        Self::forget(self, key);
        true
    }

    fn listen(&self) -> Option<Box<Listen>> {
        let keys = self.clone();
        Some(Box::new(move || {
            let events = keys.subscribe(EVENTS);
            Box::new(events.map(|event| event.event.kind.as_str()))
        }))
    }

    fn snapshot(&self, key: Option<&str>) -> Snapshot {
        let Some(key) = key else {
            return Self::snapshot(self);
        };
        self.snapshot_of(key).unwrap_or_else(|| {
            let new = self.standing(key);
            Snapshot::of(new.limit, new.remaining.unwrap_or(new.limit))
        })
    }
}
