//! A keyed limit as others see it, and what is done to the state of one key without asking.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::Keyed;
use super::table::Found;
use super::wide::What;
use crate::name::Name;
use crate::{Acquire, Demand, Denied, Gate, Moment, PerKey, Permit, Rule, Standing, Terms};

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// As if `permit`, which was granted to `key`, had never been granted. See [`Permit::undo`].
    ///
    /// Permits of single keys do not know their key, so undoing them by themselves does nothing.
    pub fn undo<Q>(&self, key: &Q, permit: Permit<'_>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        permit.undo_by(|grant, _whole| {
            if grant.cost > 0 {
                self.change(
                    key,
                    |_| {},
                    |rule, state, now| {
                        rule.put_back(state, now, grant.taken, grant.cost);
                    },
                );
            }
        });
    }

    /// Takes for `key` after the fact, as much as can be taken. See [`Gate::charge`].
    pub fn charge<Q>(&self, key: &Q, cost: u32)
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        if R::GIVES_BACK || cost == 0 {
            return;
        }
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        let (shard, hash) = shared.locate(key);
        // A key for which there is no room is refused anyway.
        if let Ok(mut table) = shared.with_key(shard, hash, key, now) {
            shared.note(&mut table, hash, key, now);
            drop(table);
            self.change(
                key,
                |gate| gate.charge(cost),
                |rule, state, now| {
                    rule.charge(state, now, cost);
                },
            );
        }
    }

    /// How much `key` has left.
    pub fn standing<Q>(&self, key: &Q) -> Standing
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.look(key, |_, _| ()).0
    }

    /// How much `key` has left, and something of the rule that all keys have which have none of their own.
    fn look<Q, T>(&self, key: &Q, see: impl FnOnce(&R, Moment) -> T) -> (Standing, T)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.clock.now();
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, now);
        let now = now.max(table.forgot_at);
        let seen = see(&table.rule, now);
        let gate = match table.find(hash, key) {
            Some(Found::Word(rule, word)) => {
                return (Standing::of(rule, &rule.unpack(*word, now), now), seen);
            }
            Some(Found::Wide(rule, wide)) => match &wide.what {
                What::State(state) => return (Standing::of(rule, state, now), seen),
                What::Gate { gate, .. } => gate.clone(),
            },
            None => {
                let rule = &*table.rule;
                return (Standing::of(rule, &rule.fresh_key(now), now), seen);
            }
        };
        drop(table);
        (gate.standing(), seen)
    }

    /// What each key without limits of its own is promised.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let now = self.shared.clock.now();
        Terms::of(&*self.shared.shards[0].lock().rule, now)
    }

    /// Changes the state of a key that is known, or its gate.
    fn change<Q>(
        &self,
        key: &Q,
        in_gate: impl FnOnce(&Gate<R>),
        in_state: impl FnOnce(&R, &mut R::State, Moment),
    ) where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, now);
        let now = now.max(table.forgot_at);
        let wide = match table.find(hash, key) {
            None => return,
            Some(Found::Word(rule, word)) => {
                let mut state = rule.unpack(*word, now);
                in_state(rule, &mut state, now);
                match rule.pack(&state, now) {
                    Some(next) => {
                        *word = next;
                        return;
                    }
                    None => Some(state),
                }
            }
            Some(Found::Wide(rule, wide)) => match &mut wide.what {
                What::State(state) => {
                    in_state(rule, state, now);
                    return;
                }
                What::Gate { gate, .. } => {
                    let gate = gate.clone();
                    // Not under the lock of the shard: it may wake who waits.
                    drop(table);
                    in_gate(&gate);
                    return;
                }
            },
        };
        table.widen(hash, key, now);
        if let (Some(state), Some(Found::Wide(_, found))) = (wide, table.find(hash, key)) {
            found.what = What::State(state);
        }
    }
}

impl<K, Q, R, S> PerKey<Q> for Keyed<K, R, S>
where
    K: Hash + Eq + Borrow<Q> + From<Q::Owned> + Send + Sync + 'static,
    Q: Hash + Eq + ToOwned + Sync + ?Sized,
    R: Rule + Clone,
    S: BuildHasher + Send + Sync + 'static,
{
    #[inline]
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, key, demand)
    }

    #[inline]
    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        let shared = &*self.shared;
        let now = shared.clock.now();
        if shared.take_short(key, now, demand.cost) {
            shared.totals.granted();
            return Ok(Permit::spent(demand.granted(now)));
        }
        let answer = Self::attempt(self, key, demand);
        if answer.is_ok() {
            shared.totals.granted();
        }
        answer
    }

    #[inline(always)]
    fn attempt_owned(&self, key: &Q, demand: Demand) -> Option<Permit<'static>> {
        let shared = &*self.shared;
        let now = shared.clock.now();
        if shared.take_short(key, now, demand.cost) {
            shared.totals.granted();
            return Some(Permit::spent(demand.granted(now)));
        }
        None
    }

    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static> {
        if self.shared.queue.is_none() || demand.is_at_once() {
            let answer = Self::try_acquire(self, key, demand);
            return Acquire::ready(answer.map(Permit::into_owned));
        }
        let (keyed, key) = (self.clone(), K::from(key.to_owned()));
        Acquire::from_future(async move { keyed.acquire(key.borrow(), demand).await })
    }

    fn undo(&self, key: &Q, permit: Permit<'_>) {
        Self::undo(self, key, permit);
    }

    fn charge(&self, key: &Q, cost: u32) {
        Self::charge(self, key, cost);
    }

    fn standing(&self, key: &Q) -> Option<Standing> {
        Some(Self::standing(self, key))
    }

    fn terms(&self) -> Terms {
        Self::terms(self)
    }

    fn standing_and_terms(&self, key: &Q) -> Option<(Standing, Terms)> {
        Some(self.look(key, |rule, now| Terms::of(rule, now)))
    }

    fn name(&self) -> Option<&str> {
        self.shared.name.map(Name::as_str)
    }
}
