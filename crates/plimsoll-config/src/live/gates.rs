//! Limiters that run, and how each can be changed.

use std::sync::Arc;

use plimsoll::kinds::{AnyLimiter, Basic};
use plimsoll::{
    Carry, Clock, Concurrency, Counts, Full, Gate, GateBuilder, Keyed, KeyedBuilder, Queue, Rule,
};

use super::stores::Stores;
use super::{KeyedLimiter, Part};
use crate::check::Definition;
use crate::rules::{Found, FromKind, WithRule};
use crate::spec::{self, Kind};

/// A limiter that runs.
pub(crate) struct Live {
    pub(crate) part: Part,
    change: Box<dyn Change>,
    /// For `all`, which must not close its members when it is closed itself.
    pub(super) switch: Option<Basic>,
}

impl Live {
    /// One that cannot be changed, only replaced.
    pub(super) fn fixed(limiter: impl Into<AnyLimiter>, switch: Option<Basic>) -> Self {
        Self {
            part: Part::Limiter(limiter.into()),
            change: Box::new(Fixed),
            switch,
        }
    }

    /// One that is kept in a store, and how it is changed.
    #[cfg(feature = "redis")]
    pub(super) fn stored(part: Part, change: impl Change + 'static) -> Self {
        Self {
            part,
            change: Box::new(change),
            switch: None,
        }
    }

    /// Prepares to change it to `to` as far as that can be done, with everything that is in it. What is returned does it, and
    /// cannot fail.
    pub(super) fn change(
        self: &Arc<Self>,
        from: &Definition,
        to: &Definition,
        stores: &Stores,
    ) -> Result<Prepared, String> {
        if let Some(prepared) = self.change.prepare(to, stores)? {
            return Ok(prepared);
        }
        let (live, kind) = (Arc::clone(self), to.limiter.kind.clone());
        let queue = |it: &Definition| it.limiter.common.queue.clone();
        let queue = (queue(from) != queue(to)).then(|| queue(to).as_ref().map(queue_of));
        Ok(Box::new(move || {
            live.change.change(&kind);
            if let Some(queue) = queue {
                live.change.set_queue(queue);
            }
        }))
    }

    /// Whether `to` is a change that does not need another limiter.
    pub(super) fn can_change(&self, from: &Definition, to: &Definition) -> bool {
        let (old, new) = (&from.limiter.common, &to.limiter.common);
        // A key has its queue only while somebody waits, so there is none to change.
        let queue = !old.keyed || old.queue == new.queue;
        let same_kind = from.limiter.kind.word() == to.limiter.kind.word();
        let max_keys = !old.keyed || old.max_keys == new.max_keys;
        let same = same_kind && from.name() == to.name() && old.keyed == new.keyed;
        same && queue && max_keys && self.change.is_possible()
    }

    /// Takes as much as `old` had in use, so that a limiter that takes the place of another does not start full.
    pub(super) fn charge(&self, old: &Self) {
        if let Some(used) = old.change.used() {
            self.change.charge(used);
        }
    }

    pub(super) fn close(&self) {
        match (&self.switch, &self.part) {
            (Some(switch), _) => switch.close(),
            (None, Part::Limiter(limiter)) => limiter.close(),
            (None, Part::Keyed(keyed)) => keyed.close(),
            (None, Part::Provider(_)) => {}
        }
    }
}

/// A change that is ready to be made.
pub(super) type Prepared = Box<dyn FnOnce()>;

/// What only the type of a limiter's rule knows.
pub(super) trait Change: Send + Sync {
    /// Whether its limit can be changed at all.
    fn is_possible(&self) -> bool {
        false
    }

    /// For limits in a store: the change to `to`. `None` for others, which [change](Self::change) by themselves.
    fn prepare(&self, to: &Definition, stores: &Stores) -> Result<Option<Prepared>, String> {
        let _ = (to, stores);
        Ok(None)
    }

    /// Changes its limit, if `to` is of its kind.
    fn change(&self, to: &Kind) {
        let _ = to;
    }

    fn set_queue(&self, queue: Option<Queue>) {
        let _ = queue;
    }

    /// How much is used, of a rate.
    fn used(&self) -> Option<u32> {
        None
    }

    /// Takes what was used, of a rate.
    fn charge(&self, used: u32) {
        let _ = used;
    }
}

struct Fixed;

impl Change for Fixed {}

struct RateGate<R: Rule>(Gate<R>);

impl<R: FromKind> Change for RateGate<R> {
    fn is_possible(&self) -> bool {
        true
    }

    fn change(&self, to: &Kind) {
        if let Some(Ok(rule)) = R::of(to) {
            self.0.replace(rule, Carry::AsIs);
        }
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }

    fn used(&self) -> Option<u32> {
        u32::try_from(self.0.snapshot().in_use()).ok()
    }

    fn charge(&self, used: u32) {
        let now = self.used().unwrap_or(u32::MAX);
        self.0.take_up_to(used.saturating_sub(now)).forget();
    }
}

struct Slots(Gate<Concurrency>);

impl Change for Slots {
    fn is_possible(&self) -> bool {
        true
    }

    fn change(&self, to: &Kind) {
        if let Kind::Concurrency { limit, .. } = to {
            // It was checked that it is not 0.
            let _ = self.0.resize(limit.0);
        }
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }
}

struct RateKeys<R: Rule>(Keyed<String, R>);

impl<R: FromKind> Change for RateKeys<R> {
    fn is_possible(&self) -> bool {
        true
    }

    fn change(&self, to: &Kind) {
        if let Some(Ok(rule)) = R::of(to) {
            self.0.replace(rule, Carry::AsIs);
        }
    }
}

/// Builds a limiter from its rule. `None` for kinds that have no rule.
pub(super) struct Build<'a> {
    pub(super) definition: &'a Definition,
    pub(super) clock: &'a Clock,
}

impl Build<'_> {
    fn gate<R: Rule>(&self, rule: R) -> Gate<R> {
        let builder = Gate::builder(rule).clock(self.clock.clone());
        let builder = builder.name(self.definition.name());
        let queue = self.definition.limiter.common.queue.as_ref();
        queue
            .map(queue_of)
            .into_iter()
            .fold(builder, GateBuilder::queue)
            .build()
    }

    fn keys<R: Rule + Clone>(&self, rule: R) -> Keyed<String, R> {
        let common = &self.definition.limiter.common;
        let builder = Keyed::builder(rule).clock(self.clock.clone());
        let builder = builder.name(self.definition.name());
        let builder = common.max_keys.iter().fold(builder, |builder, most| {
            builder.max_keys(usize::try_from(most.0).unwrap_or(usize::MAX))
        });
        let queue = common.queue.as_ref().map(queue_of).into_iter();
        queue.fold(builder, KeyedBuilder::queue).build()
    }

    fn keyed<R: Rule + Clone>(
        &self,
        keyed: Keyed<String, R>,
        change: impl Change + 'static,
    ) -> Live {
        Live {
            part: Part::Keyed(KeyedLimiter::new(self.definition.name(), keyed)),
            change: Box::new(change),
            switch: None,
        }
    }
}

impl WithRule for Build<'_> {
    type Out = Option<Live>;

    fn rate<R: FromKind>(self, rule: R) -> Option<Live> {
        if self.definition.is_keyed() {
            let keys = self.keys(rule);
            return Some(self.keyed(keys.clone(), RateKeys(keys)));
        }
        let gate = self.gate(rule);
        Some(Live {
            part: Part::Limiter(gate.clone().into()),
            change: Box::new(RateGate(gate)),
            switch: None,
        })
    }

    fn concurrency(self, rule: Concurrency) -> Option<Live> {
        if self.definition.is_keyed() {
            let keys = self.keys(rule);
            return Some(self.keyed(keys, Fixed));
        }
        let gate = self.gate(rule);
        Some(Live {
            part: Part::Limiter(gate.clone().into()),
            change: Box::new(Slots(gate)),
            switch: None,
        })
    }

    fn adaptive(self, rule: Found) -> Option<Live> {
        Some(Live::fixed(self.gate(rule), None))
    }

    fn none(self) -> Option<Live> {
        None
    }
}

pub(crate) fn queue_of(spec: &spec::Queue) -> Queue {
    let queue = match spec.order {
        spec::Order::Fifo => Queue::fifo(spec.bound),
        spec::Order::Lifo => Queue::lifo(spec.bound),
    };
    let queue = match spec.full {
        None => queue,
        Some(spec::Full::Incoming) => queue.full(Full::Incoming),
        Some(spec::Full::Oldest) => queue.full(Full::Oldest),
        Some(spec::Full::Newest) => queue.full(Full::Newest),
    };
    let queue = queue.counts(match spec.counts {
        spec::Counts::Excess => Counts::Excess,
        spec::Counts::Waiting => Counts::Waiting,
    });
    match spec.timeout {
        None => queue,
        Some(timeout) => queue.timeout(timeout.into()),
    }
}
