//! Adapters between limiters with and without keys, for handles of a limiter that has changed from one to the other.

use std::sync::{Arc, Weak};

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, LimiterExt, Metadata, Moment, Outcome, PerKey,
    Permit, Reservation, Shareable, Snapshot, Source, Standing,
};

use plimsoll::together::{Target, may_wait, reserve_shared};

use super::keyed::Keys;

/// The key of callers without a key.
const NO_KEY: &str = "";

/// A limiter without keys, for callers with a key: all keys share it.
pub(super) struct SameForAll(pub(super) Arc<dyn Limiter>);

impl PerKey<str> for SameForAll {
    fn try_acquire(&self, _key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.0.try_acquire(demand)
    }

    fn attempt(&self, _key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.0.attempt(demand)
    }

    fn attempt_owned(&self, _key: &str, demand: Demand) -> Option<Permit<'static>> {
        self.0.attempt_owned(demand)
    }

    fn spend(&self, _key: &str, cost: u64) -> Option<Moment> {
        self.0.spend(cost)
    }

    fn acquire_owned(&self, _key: &str, demand: Demand) -> Acquire<'static> {
        self.0.acquire_owned(demand)
    }

    fn reserve_owned(&self, _key: &str, demand: Demand) -> Result<Reservation<'static>, Denied> {
        reserve_shared(Arc::clone(&self.0), demand)
    }

    fn undo(&self, _key: &str, permit: Permit<'_>) {
        self.0.undo(permit);
    }

    fn charge(&self, _key: &str, cost: u64) {
        self.0.charge(cost);
    }

    fn settle(&self, _key: &str, permit: &mut Permit<'_>, cost: u64) {
        self.0.settle(permit, cost);
    }

    fn clock(&self) -> Option<&Clock> {
        Some(self.0.clock())
    }

    fn standing(&self, _key: &str) -> Standing {
        self.0.standing()
    }

    fn promise(&self) -> Standing {
        self.0.standing()
    }

    fn is_remote(&self) -> bool {
        self.0.is_remote()
    }

    fn has_queue(&self) -> bool {
        may_wait(&*self.0)
    }

    fn target(&self, _key: &str) -> Option<Result<Target, Denied>> {
        Some(Ok(Target::limiter(Arc::clone(&self.0))))
    }

    fn name(&self) -> Option<&str> {
        self.0.name()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.0.metadata()
    }
}

impl Keys for SameForAll {
    fn estimate(&self, _key: &str, demand: Demand) -> Result<(), Denied> {
        self.0.estimate(demand)
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn snapshot_of(&self, _key: &str) -> Option<Snapshot> {
        Some(self.0.snapshot())
    }

    fn each_used(&self, see: &mut dyn FnMut(&str, u64)) {
        let used = self.0.snapshot().in_use();
        see(NO_KEY, used);
    }

    fn give_back(&self, _key: &str, grant: Grant, outcome: Outcome) {
        if let Some(source) = self.0.source() {
            source.give_back(grant, outcome);
        }
    }

    fn its_clock(&self) -> &Clock {
        self.0.clock()
    }
}

/// A limiter with keys, for callers without one: they share one key.
pub(super) struct NoKey {
    me: Weak<Self>,
    keys: Arc<dyn Keys>,
}

impl NoKey {
    pub(super) fn of(keys: Arc<dyn Keys>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            keys,
        })
    }
}

impl Limiter for NoKey {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.keys.try_acquire(NO_KEY, demand)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(async move { self.acquire_owned(demand).await })
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        self.keys.acquire_owned(NO_KEY, demand)
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        self.keys
            .reserve_owned(NO_KEY, demand)
            .map(Reservation::for_borrow)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.keys.estimate(NO_KEY, demand)
    }

    fn snapshot(&self) -> Snapshot {
        let all = self.keys.snapshot();
        let one = self.keys.snapshot_of(NO_KEY);
        one.unwrap_or_else(|| Snapshot::of(all.limit(), all.limit()))
            .with_totals(all.granted_total(), all.denied_total())
    }

    fn standing(&self) -> Standing {
        self.keys.standing(NO_KEY)
    }

    /// Does nothing: the binding is closed, not the version.
    fn close(&self) {}

    fn name(&self) -> Option<&str> {
        self.keys.name()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.keys.metadata()
    }

    fn clock(&self) -> &Clock {
        self.keys.its_clock()
    }

    fn internals(&self) -> Option<&dyn plimsoll::Internals> {
        Some(self)
    }
}

impl plimsoll::Internals for NoKey {
    fn source(&self) -> Option<&dyn Shareable> {
        Some(self)
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.keys.attempt(NO_KEY, demand)
    }

    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        self.keys.attempt_owned(NO_KEY, demand)
    }

    fn spend(&self, cost: u64) -> Option<Moment> {
        self.keys.spend(NO_KEY, cost)
    }

    fn undo(&self, permit: Permit<'_>) {
        self.keys.undo(NO_KEY, permit);
    }

    fn charge(&self, cost: u64) {
        self.keys.charge(NO_KEY, cost);
    }

    fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        self.keys.settle(NO_KEY, permit, cost);
    }

    fn is_remote(&self) -> bool {
        self.keys.is_remote()
    }

    fn target(&self) -> Option<Result<Target, Denied>> {
        self.keys.target(NO_KEY)
    }
}

impl Source for NoKey {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.keys.give_back(NO_KEY, grant, outcome);
    }

    fn undo(&self, grant: Grant, _whole: bool) {
        self.keys.undo(NO_KEY, Permit::spent(grant));
    }

    fn now(&self) -> Option<Moment> {
        Some(self.keys.its_clock().now())
    }
}

impl Shareable for NoKey {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}
