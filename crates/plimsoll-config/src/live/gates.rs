//! Running limiters, built from their definitions.

use std::sync::Arc;

use plimsoll::{
    Clock, Concurrency, Gate, GateBuilder, Keyed, KeyedBuilder, Limiter, Metadata, Moment, Rule,
};
use plimsoll_kinds::{KeyedLimiter, LimiterKind as Class};

use plimsoll_spec::{AdaptiveRule, Kind, RateRule, Store, WithRule};

use super::Part;
use super::binding::{Binding, Past};
use super::handle::Handle;
use super::in_place::{
    AdaptiveGate, AdaptiveKeys, ChangeInPlace, Fixed, Prepared, RateGate, RateKeys, SlotKeys, Slots,
};
use super::keyed::{KeysOfName, Text};
use super::stores::Stores;
use super::version::{Inner, Version};
use crate::check::Definition;

/// A running limiter: its binding, its definition, and the way to change it.
pub(crate) struct Live {
    /// The handle for callers.
    pub(crate) part: Part,
    pub(super) binding: Arc<Binding>,
    pub(super) change: Arc<dyn ChangeInPlace>,
    /// The definition that it was built from.
    pub(super) definition: Definition,
    pub(super) store: Option<Store>,
    /// The members of an `all`.
    pub(super) members: Vec<Member>,
}

/// A member of an `all`, and whether it is in a store.
pub(super) type Member = (Arc<Binding>, bool);

impl Live {
    /// The first limiter of a name.
    pub(super) fn new(built: Built, to: &Definition, store: Option<&Store>, clock: &Clock) -> Self {
        let binding = Binding::new(to.name(), built.version(to), clock);
        Self::behind(binding, built.change, to, store)
    }

    /// A limiter behind a binding that exists already.
    pub(super) fn behind(
        binding: Arc<Binding>,
        change: Arc<dyn ChangeInPlace>,
        to: &Definition,
        store: Option<&Store>,
    ) -> Self {
        Self {
            part: part(&binding, to),
            binding,
            change,
            definition: to.clone(),
            store: store.cloned(),
            members: Vec::new(),
        }
    }

    /// The same limiter with another definition.
    pub(super) fn described(&self, to: &Definition, store: Option<&Store>) -> Self {
        let from = &self.definition;
        let same = (from.class, from.is_keyed()) == (to.class, to.is_keyed());
        Self {
            part: if same {
                self.part.clone()
            } else {
                part(&self.binding, to)
            },
            binding: Arc::clone(&self.binding),
            change: Arc::clone(&self.change),
            definition: to.clone(),
            store: store.cloned(),
            members: self.members.clone(),
        }
    }

    /// Whether a caller holds it, or its state still counts.
    pub(super) fn matters(&self) -> bool {
        let held = match &self.part {
            Part::Limiter(limiter) => Arc::strong_count(limiter.shared()) > 1,
            Part::Keyed(keyed) => Arc::strong_count(keyed.shared()) > 1,
            Part::Provider(_) => false,
        };
        // One reference is here, one in the handle.
        held || Arc::strong_count(&self.binding) > 2 || self.binding.matters()
    }

    /// Prepares the change to `to`, which keeps its state. The returned change cannot fail.
    pub(super) fn prepare(&self, to: &Definition, stores: &Stores) -> Result<Prepared, String> {
        let stored = self.change.prepare(to, stores)?;
        let (binding, name) = (Arc::clone(&self.binding), to.name().to_owned());
        let change = stored.unwrap_or_else(|| {
            let present = Past {
                version: self.binding.latest(),
                change: Arc::clone(&self.change),
                definition: self.definition.clone(),
            };
            present.prepare(to)
        });
        Ok(Box::new(move || {
            change();
            binding.rename(&name);
        }))
    }
}

impl Past {
    /// Prepares the change to `to`, which keeps its state.
    pub(super) fn prepare(&self, to: &Definition) -> Prepared {
        let (past, to) = (self.clone(), to.clone());
        Box::new(move || {
            past.change.change(&past.definition, &to);
            let old = &past.definition.limiter.common.queue;
            let new = &to.limiter.common.queue;
            if old != new {
                past.change
                    .set_queue(new.as_ref().map(plimsoll_spec::Queue::build));
            }
            past.version.set_timeout(timeout(&to));
        })
    }
}

/// The handle of a binding.
fn part(binding: &Arc<Binding>, to: &Definition) -> Part {
    if to.is_keyed() {
        return Part::Keyed(KeyedLimiter::new(KeysOfName(Arc::clone(binding))));
    }
    Part::Limiter(Handle(Arc::clone(binding)).of_class(to.class))
}

fn timeout(to: &Definition) -> Option<std::time::Duration> {
    let queue = to.limiter.common.queue.as_ref()?;
    queue.timeout.map(Into::into)
}

/// A limiter that was built, and the way to change it.
pub(super) struct Built {
    pub(super) inner: Inner,
    pub(super) change: Arc<dyn ChangeInPlace>,
}

impl Built {
    /// A limiter that cannot be changed in place.
    pub(super) fn fixed(inner: Inner) -> Self {
        let change = Arc::new(Fixed);
        Self { inner, change }
    }

    pub(super) fn version(&self, to: &Definition) -> Arc<Version> {
        let class = match to.limiter.kind {
            // It holds permits, with or without keys.
            Kind::Concurrency { .. } => Class::Resource,
            _ => to.class,
        };
        let version = Version::new(self.inner.clone(), class);
        version.set_timeout(timeout(to));
        version
    }
}

/// Builds a limiter from its rule.
pub(super) struct Build<'a> {
    pub(super) definition: &'a Definition,
    pub(super) clock: &'a Clock,
    /// The moment at which its rule began, if that was in an earlier process.
    pub(super) began: Option<Moment>,
}

impl Build<'_> {
    /// The metadata of the limiter. The file was checked.
    pub(super) fn about(&self) -> Option<Metadata> {
        self.definition.limiter.common.about().ok().flatten()
    }

    pub(super) fn gate<R: Rule>(&self, rule: R) -> Gate<R> {
        let builder = Gate::builder(rule).clock(self.clock.clone());
        let builder = self.began.into_iter().fold(builder, GateBuilder::began);
        let builder = builder.name(self.definition.name());
        let builder = self
            .about()
            .into_iter()
            .fold(builder, GateBuilder::metadata);
        let queue = self.definition.limiter.common.queue.as_ref();
        queue
            .map(plimsoll_spec::Queue::build)
            .into_iter()
            .fold(builder, GateBuilder::queue)
            .build()
    }

    fn keys<R: Rule + Clone>(&self, rule: R) -> Keyed<Text, R> {
        let common = &self.definition.limiter.common;
        let builder = Keyed::builder(rule).clock(self.clock.clone());
        let builder = self.began.into_iter().fold(builder, KeyedBuilder::began);
        let builder = builder.name(self.definition.name());
        let builder = self
            .about()
            .into_iter()
            .fold(builder, KeyedBuilder::metadata);
        let builder = common.max_keys.iter().fold(builder, |builder, most| {
            builder.max_keys(usize::try_from(most.0).unwrap_or(usize::MAX))
        });
        let queue = common
            .queue
            .as_ref()
            .map(plimsoll_spec::Queue::build)
            .into_iter();
        queue.fold(builder, KeyedBuilder::queue).build()
    }

    fn one(limiter: impl Limiter + 'static, change: impl ChangeInPlace + 'static) -> Built {
        Built {
            inner: Inner::One(Arc::new(limiter)),
            change: Arc::new(change),
        }
    }

    fn keyed<R: Rule + Clone>(
        keyed: Keyed<Text, R>,
        change: impl ChangeInPlace + 'static,
    ) -> Built {
        Built {
            inner: Inner::Keys(Arc::new(keyed)),
            change: Arc::new(change),
        }
    }
}

impl WithRule for Build<'_> {
    type Out = Built;

    fn rate<R: RateRule>(self, rule: R) -> Built {
        let rule = rule.into_any();
        if self.definition.is_keyed() {
            let keys = self.keys(rule);
            return Self::keyed(keys.clone(), RateKeys(keys));
        }
        let gate = self.gate(rule);
        Self::one(gate.clone(), RateGate(gate))
    }

    fn concurrency(self, rule: Concurrency) -> Built {
        if self.definition.is_keyed() {
            let keys = self.keys(rule);
            return Self::keyed(keys.clone(), SlotKeys(keys));
        }
        let gate = self.gate(rule);
        Self::one(gate.clone(), Slots(gate))
    }

    fn adaptive(self, rule: AdaptiveRule) -> Built {
        let kind = self.definition.limiter.kind.clone();
        if self.definition.is_keyed() {
            let keys = self.keys(rule);
            return Self::keyed(keys.clone(), AdaptiveKeys(keys, kind));
        }
        let gate = self.gate(rule);
        Self::one(gate.clone(), AdaptiveGate(gate, kind))
    }
}
