//! A limit with keys, in a store.

use std::sync::Arc;

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Outcome, PerKey, Permit, Snapshot, Standing,
};

use super::super::keyed::Keys;
use super::Current;

/// All keys of a limit in a store.
pub(super) struct FleetKeys(Arc<Current>, Clock);

impl FleetKeys {
    pub(super) fn new(name: &str, current: Arc<Current>) -> Self {
        let clock = current.get().key(name).clock().clone();
        Self(current, clock)
    }
}

impl PerKey<str> for FleetKeys {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        let fleet = self.0.get();
        let permit = PerKey::try_acquire(&fleet, key, demand);
        permit.map(Permit::into_owned)
    }

    fn attempt(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        let fleet = self.0.get();
        let permit = PerKey::attempt(&fleet, key, demand);
        permit.map(Permit::into_owned)
    }

    fn acquire_owned(&self, key: &str, demand: Demand) -> Acquire<'static> {
        self.0.get().acquire_owned(key, demand)
    }

    fn undo(&self, key: &str, permit: Permit<'_>) {
        self.0.get().undo(key, permit);
    }

    fn charge(&self, key: &str, cost: u32) {
        self.0.get().charge(key, cost);
    }

    fn standing(&self, key: &str) -> Standing {
        self.0.get().standing(key)
    }

    fn promise(&self) -> Standing {
        PerKey::<str>::promise(&self.0.get())
    }

    fn is_remote(&self) -> bool {
        true
    }

    /// The one who holds it knows.
    fn name(&self) -> Option<&str> {
        None
    }
}

impl Keys for FleetKeys {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        self.0.get().key(key).estimate(demand)
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// Only the store knows.
    fn snapshot_of(&self, _key: &str) -> Option<Snapshot> {
        None
    }

    /// What is in a store stays there.
    fn each_used(&self, _see: &mut dyn FnMut(&str, u32)) {}

    /// Permits have sources of their own.
    fn give_back(&self, _key: &str, _grant: Grant, _outcome: Outcome) {}

    fn its_clock(&self) -> &Clock {
        &self.1
    }
}
