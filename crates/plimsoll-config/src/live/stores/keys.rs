//! A limiter with keys, in a store.

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Outcome, PerKey, Permit, Snapshot, Standing,
};

use super::super::keyed::Keys;
use plimsoll_redis::{Fleet, FleetKey};

/// All keys of a limiter in a store.
pub(super) struct FleetKeys {
    fleet: Fleet,
    /// For operations that need no key.
    any: FleetKey,
}

impl FleetKeys {
    pub(super) fn new(name: &str, fleet: Fleet) -> Self {
        let any = fleet.key(name);
        Self { fleet, any }
    }
}

impl PerKey<str> for FleetKeys {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.fleet.try_acquire(key, demand)
    }

    fn attempt(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.fleet.attempt(key, demand)
    }

    fn acquire_owned(&self, key: &str, demand: Demand) -> Acquire<'static> {
        self.fleet.acquire_owned(key, demand)
    }

    fn undo(&self, key: &str, permit: Permit<'_>) {
        self.fleet.undo(key, permit);
    }

    fn charge(&self, key: &str, cost: u64) {
        self.fleet.charge(key, cost);
    }

    fn standing(&self, key: &str) -> Standing {
        self.fleet.standing(key)
    }

    fn promise(&self) -> Standing {
        PerKey::<str>::promise(&self.fleet)
    }

    fn is_remote(&self) -> bool {
        true
    }

    /// Unknown here: the binding has the name.
    fn name(&self) -> Option<&str> {
        None
    }
}

impl Keys for FleetKeys {
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        self.fleet.key(key).estimate(demand)
    }

    fn snapshot(&self) -> Snapshot {
        self.any.snapshot()
    }

    /// Unknown: only the store knows its keys.
    fn snapshot_of(&self, _key: &str) -> Option<Snapshot> {
        None
    }

    /// Does nothing: usage in a store stays there.
    fn each_used(&self, _see: &mut dyn FnMut(&str, u64)) {}

    /// Does nothing: permits return to the store themselves.
    fn give_back(&self, _key: &str, _grant: Grant, _outcome: Outcome) {}

    fn its_clock(&self) -> &Clock {
        self.any.clock()
    }
}
