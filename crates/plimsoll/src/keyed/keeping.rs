//! States of keys that outlive their limit: they are read in one process, and restored into a limit of the next.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::Keyed;
use super::key_gate::Lease;
use super::step::{Done, Step};
use super::table::View;
use crate::{Denied, Moment, Rule};

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Returns the moment at which its rule began.
    #[doc(hidden)]
    #[must_use]
    pub fn began(&self) -> Moment {
        self.shared.shards[0].lock().rule.began()
    }

    /// Returns the number of parts that [`kept`](Self::kept) visits one by one.
    #[doc(hidden)]
    #[must_use]
    pub fn parts(&self) -> usize {
        self.shared.shards.len()
    }

    /// Visits the keys of a part with their states, under a lock that decisions on these keys also take. Keys with a
    /// limit of their own are skipped.
    #[doc(hidden)]
    pub fn kept(&self, part: usize, mut see: impl FnMut(&K, &R::State))
    where
        K: Clone,
    {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        let mut gates = Vec::new();
        let table = shared.shards[part].lock();
        table.each(now, |key, view| match view {
            _ if table.own.contains_key(key) => {}
            View::State(_, state) => see(key, state),
            View::Gate(held) => gates.push((key.clone(), Lease::new(held))),
        });
        drop(table);
        for (key, gate) in gates {
            see(&key, &gate.kept().1);
        }
    }

    /// Replaces the state of `key` by the one that `state` makes for the rule at this moment. On a limit whose permits
    /// are returned it does nothing: permits in use are counted by the limiter that granted them.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for another key.
    #[doc(hidden)]
    pub fn restore<Q>(&self, key: &Q, state: impl Fn(&R, Moment) -> R::State) -> Result<(), Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        if R::RETURNS_PERMITS {
            return Ok(());
        }
        let now = self.shared.gates.clock.precise_now();
        let step = self.shared.step(key, now, |turn| {
            *turn.state = state(turn.rule, turn.now);
            Done::Answer(())
        })?;
        if let Step::Gate(gate) = step {
            gate.restore(state);
        }
        Ok(())
    }
}
