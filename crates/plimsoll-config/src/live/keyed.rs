//! Limiters with keys, and their handle.

use std::sync::Arc;

use compact_str::CompactString;
use plimsoll::together::Target;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Keyed, LimiterExt, Metadata, Moment, Outcome, PerKey,
    Permit, Reservation, Rule, Snapshot, Standing,
};
use plimsoll_kinds::{LimiterKind, TextKeys};

use super::binding::Binding;
use super::handle::settled;
use super::replaced::Watch;
use super::reserved;
use super::waiting::Wait;

/// A key as tables store it: up to 24 bytes without an allocation.
pub(super) type Text = CompactString;

/// The handle of a binding, for callers with a key.
pub(super) struct KeysOfName(pub(super) Arc<Binding>);

impl KeysOfName {
    fn ask(
        &self,
        ask: impl for<'k> Fn(&'k dyn Keys) -> Result<Permit<'k>, Denied>,
    ) -> Result<Permit<'_>, Denied> {
        if let Some(version) = self.0.direct() {
            let answer = ask(&*version.keys);
            if let Some(answer) = settled(version, answer) {
                return answer;
            }
        }
        self.0.ask(|version| {
            let permit = ask(&*version.keys)?;
            Ok(version.own_shared(permit.into_owned()))
        })
    }

    /// Out of line, so that the fast path needs no stack frame.
    #[cold]
    fn spend_by_current(&self, key: &str, cost: u64) -> Option<Moment> {
        self.0.current().ok()?.keys.spend(key, cost)
    }

    /// Reads the present version, also of a removed or closed name.
    #[inline]
    fn latest<T>(&self, with: impl FnOnce(&dyn Keys) -> T) -> T {
        match self.0.direct() {
            Some(version) => with(&*version.keys),
            None => with(&*self.0.latest().keys),
        }
    }
}

impl PerKey<str> for KeysOfName {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.ask(|keys| keys.try_acquire(key, demand))
    }

    fn attempt(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.ask(|keys| keys.attempt(key, demand))
    }

    fn attempt_owned(&self, key: &str, demand: Demand) -> Option<Permit<'static>> {
        match self.0.direct() {
            Some(version) => version.attempt_key(key, demand),
            None => self.0.current().ok()?.attempt_key(key, demand),
        }
    }

    fn spend(&self, key: &str, cost: u64) -> Option<Moment> {
        match self.0.direct() {
            Some(version) => version.keys.spend(key, cost),
            None => self.spend_by_current(key, cost),
        }
    }

    fn take_now(&self, key: &str, cost: u64) -> Option<Standing> {
        // Only rates allow this: their permits are not returned, so no version counts them.
        match self.0.direct() {
            Some(version) => version.keys.take_now(key, cost),
            None => self.0.current().ok()?.keys.take_now(key, cost),
        }
    }

    fn acquire_owned(&self, key: &str, demand: Demand) -> Acquire<'static> {
        Acquire::from_future(Wait::new(Arc::clone(&self.0), Some(key), demand))
    }

    fn reserve_owned(&self, key: &str, demand: Demand) -> Result<Reservation<'static>, Denied> {
        self.0
            .ask(|version| reserved::of_version(&self.0, version, Some(key), demand))
    }

    fn undo(&self, key: &str, permit: Permit<'_>) {
        self.latest(|keys| keys.undo(key, permit));
    }

    fn charge(&self, key: &str, cost: u64) {
        self.latest(|keys| keys.charge(key, cost));
    }

    fn settle(&self, key: &str, permit: &mut Permit<'_>, cost: u64) {
        self.latest(|keys| keys.settle(key, permit, cost));
    }

    fn clock(&self) -> Option<&Clock> {
        Some(self.0.clock())
    }

    fn standing(&self, key: &str) -> Standing {
        self.latest(|keys| keys.standing(key))
    }

    fn promise(&self) -> Standing {
        self.latest(|keys| keys.promise())
    }

    fn is_remote(&self) -> bool {
        self.latest(|keys| keys.is_remote())
    }

    fn undoes_exactly(&self) -> bool {
        self.latest(|keys| keys.undoes_exactly())
    }

    fn has_queue(&self) -> bool {
        self.latest(|keys| keys.has_queue())
    }

    fn target(&self, key: &str) -> Option<Result<Target, Denied>> {
        let version = match self.0.current() {
            Ok(version) => version,
            Err(denied) => return Some(Err(denied)),
        };
        let target = version.keys.target(key)?;
        Some(target.map(|target| target.watched(Watch::new(Arc::clone(&self.0), version))))
    }

    fn name(&self) -> Option<&str> {
        Some(self.0.name())
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.0.direct()?.keys.metadata()
    }
}

impl TextKeys for KeysOfName {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        self.0.ask(|version| version.keys.estimate(key, demand))
    }

    fn estimate_after(&self, key: &str, charged: u64, demand: Demand) -> Result<(), Denied> {
        self.0
            .ask(|version| version.keys.estimate_after(key, charged, demand))
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot(|version| version.keys.snapshot())
    }

    fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        self.0.latest().keys.snapshot_of(key)
    }

    fn key_count(&self) -> Option<usize> {
        self.0.latest().keys.key_count()
    }

    fn kind(&self) -> LimiterKind {
        self.0.latest().class
    }

    fn close(&self) {
        self.0.close();
    }
}

/// A limiter with keys, of any rule.
pub(super) trait Keys: PerKey<str> {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied>;
    /// The estimate as if `charged` had been charged before.
    fn estimate_after(&self, key: &str, charged: u64, demand: Demand) -> Result<(), Denied> {
        self.estimate(key, demand.cost(demand.cost.saturating_add(charged)))
    }
    fn snapshot(&self) -> Snapshot;
    fn snapshot_of(&self, key: &str) -> Option<Snapshot>;
    /// The number of keys, if they are in this process.
    fn key_count(&self) -> Option<usize> {
        None
    }
    /// Calls `see` with every key that has usage, and its usage.
    fn each_used(&self, see: &mut dyn FnMut(&str, u64));
    /// Returns a grant of `key`.
    fn give_back(&self, key: &str, grant: Grant, outcome: Outcome);
    fn its_clock(&self) -> &Clock;
}

impl<R: Rule + Clone> Keys for Keyed<Text, R> {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, key, demand)
    }

    fn estimate_after(&self, key: &str, charged: u64, demand: Demand) -> Result<(), Denied> {
        Self::estimate_after(self, key, charged, demand)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn snapshot_of(&self, key: &str) -> Option<Snapshot> {
        Self::snapshot_of(self, key)
    }

    fn key_count(&self) -> Option<usize> {
        Some(self.len())
    }

    fn each_used(&self, see: &mut dyn FnMut(&str, u64)) {
        for (key, seen) in self.top(usize::MAX) {
            see(&key, seen.in_use());
        }
    }

    fn give_back(&self, key: &str, grant: Grant, outcome: Outcome) {
        if R::RETURNS_PERMITS
            && let Ok(gate) = self.gate(key)
            && let Some(source) = LimiterExt::source(&gate)
        {
            source.give_back(grant, outcome);
        }
    }

    fn its_clock(&self) -> &Clock {
        match PerKey::<str>::clock(self) {
            Some(clock) => clock,
            None => unreachable!("a table in memory has a clock"),
        }
    }
}
