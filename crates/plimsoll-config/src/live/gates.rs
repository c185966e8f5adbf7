//! Limiters that run, and how each can be changed.

use std::sync::Arc;

use plimsoll::{
    Clock, Concurrency, Gate, GateBuilder, Keyed, KeyedBuilder, Limiter, Metadata, Moment, Rule,
};
use plimsoll_kinds::{KeyedLimiter, LimiterKind as Class};

use plimsoll_spec::{AdaptiveRule, Kind, RateRule, Store, WithRule};

use super::Part;
use super::binding::{Binding, Past};
use super::change::{
    AdaptiveGate, AdaptiveKeys, Change, Fixed, Prepared, RateGate, RateKeys, SlotKeys, Slots,
};
use super::handle::Handle;
use super::keyed::{KeysOfName, Text};
use super::stores::Stores;
use super::version::{Inner, Version};
use crate::check::Definition;

/// A limiter that runs: a name that is held, what stands behind it, and how that can be changed.
pub(crate) struct Live {
    /// What is handed out.
    pub(crate) part: Part,
    pub(super) binding: Arc<Binding>,
    pub(super) change: Arc<dyn Change>,
    /// What it was made of.
    pub(super) definition: Definition,
    pub(super) store: Option<Store>,
    /// The members of `all`, and whether each is kept in a store.
    pub(super) members: Vec<Member>,
}

/// A member of `all`, and whether it is kept in a store.
pub(super) type Member = (Arc<Binding>, bool);

impl Live {
    /// The first limiter of a name.
    pub(super) fn new(built: Built, to: &Definition, store: Option<&Store>, clock: &Clock) -> Self {
        let binding = Binding::new(to.name(), built.version(to), clock);
        Self::behind(binding, built.change, to, store)
    }

    /// What stands behind a name that may be held already.
    pub(super) fn behind(
        binding: Arc<Binding>,
        change: Arc<dyn Change>,
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

    /// The same limiter by another description.
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

    /// Whether anybody holds it, or could gain if it were forgotten.
    pub(super) fn matters(&self) -> bool {
        let held = match &self.part {
            Part::Limiter(limiter) => Arc::strong_count(limiter.shared()) > 1,
            Part::Keyed(keyed) => Arc::strong_count(keyed.shared()) > 1,
            Part::Provider(_) => false,
        };
        // Once here, and once in what is handed out.
        held || Arc::strong_count(&self.binding) > 2 || self.binding.matters()
    }

    /// Prepares to change it to `to`, with everything that is in it. What is returned does it, and cannot fail.
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
    /// Changes it to what `to` says, with everything that is in it.
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

/// What is handed out for a name.
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

/// A limiter that has been built, and how it can be changed.
pub(super) struct Built {
    pub(super) inner: Inner,
    pub(super) change: Arc<dyn Change>,
}

impl Built {
    /// One that cannot be changed where it is.
    pub(super) fn fixed(inner: Inner) -> Self {
        let change = Arc::new(Fixed);
        Self { inner, change }
    }

    pub(super) fn version(&self, to: &Definition) -> Arc<Version> {
        let class = match to.limiter.kind {
            // A limiter with keys holds permits or not, whatever it is made of.
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
    /// When its rule began, if that was in an earlier process.
    pub(super) began: Option<Moment>,
}

impl Build<'_> {
    /// What the limiter says about itself. The file was checked.
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

    fn one(limiter: impl Limiter + 'static, change: impl Change + 'static) -> Built {
        Built {
            inner: Inner::One(Arc::new(limiter)),
            change: Arc::new(change),
        }
    }

    fn keyed<R: Rule + Clone>(keyed: Keyed<Text, R>, change: impl Change + 'static) -> Built {
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
