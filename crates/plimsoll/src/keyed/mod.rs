//! A limit for each key.

mod builder;
mod hash;
mod per_key;
mod report;
mod shared;
mod slots;
mod table;
mod wide;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::shared::{Decided, Shared};
use self::table::Found;
use self::wide::What;
use crate::name::Name;
use crate::{Carry, Demand, Denied, Gate, Moment, Permit, Rule};

pub use builder::{KeyedBuilder, WhenFull};
pub use hash::KeyHash;

/// One limit for each key: a tenant, an address, a route.
///
/// All keys follow one [`Rule`], unless a key is given [its own](Self::set_limit). A key costs what its state
/// costs: 8 bytes beside the key itself for a [`TokenBucket`](crate::TokenBucket) or a
/// [`FixedWindow`](crate::FixedWindow). Only a key that somebody waits for is a whole limiter.
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
///
/// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(2));
/// assert!(per_tenant.try_acquire("red", 2).is_ok());
/// assert!(per_tenant.try_acquire("red", 1).is_err());
/// assert!(per_tenant.try_acquire("blue", 1).is_ok());
/// ```
///
/// # How many keys
///
/// At most [`max_keys`](KeyedBuilder::max_keys), a million unless set. A state that equals that of a
/// new key is forgotten within some seconds, a few at a time by whoever comes along; no thread is needed,
/// and nobody can tell. A limit whose keys begin with less than they can hold (a bucket with
/// [`initial`](crate::TokenBucket::with_initial) tokens, a bursty [`Smooth`](crate::Smooth)) keeps every key. When all
/// places are taken by keys whose states say something, a new key is refused ([`Reason::KeysFull`](crate::Reason::KeysFull)) or takes the place of the least recently used, as
/// [`when_full`](KeyedBuilder::when_full) says.
///
/// # Who waits for whom
///
/// Keys are spread over shards by a keyed hash, so that nobody can aim at one. A decision holds the lock of
/// its shard for no longer than it takes to look at one state.
pub struct Keyed<K, R: Rule, S = KeyHash> {
    shared: Arc<Shared<K, R, S>>,
}

impl<K: Hash + Eq, R: Rule + Clone> Keyed<K, R> {
    /// The same limit for each key, at most a million of them, on the system's clock.
    pub fn new(rule: R) -> Self {
        Self::builder(rule).build()
    }

    /// A keyed limit with other settings.
    pub fn builder(rule: R) -> KeyedBuilder<K, R> {
        KeyedBuilder::new(rule)
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Takes for `key` now, or is refused. See [`Gate::try_acquire`].
    ///
    /// # Errors
    ///
    /// [`Denied`] says why, and when to try again.
    #[inline]
    pub fn try_acquire<Q>(&self, key: &Q, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let demand = demand.into();
        let shared = &*self.shared;
        let now = shared.clock.now();
        if shared.take_short(key, now, demand.cost) {
            shared.totals.granted();
            return Ok(Permit::spent(demand.granted(now)));
        }
        self.try_acquire_long(key, demand)
    }

    /// Kept apart, so that the short way stays small: the less a decision executes, the more of the next one
    /// the processor can begin while it waits for memory.
    #[inline(never)]
    fn try_acquire_long<Q>(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let answer = self.attempt(key, demand);
        match answer {
            Ok(_) => self.shared.totals.granted(),
            Err(_) => self.shared.totals.denied(),
        }
        answer
    }

    fn attempt<Q>(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let clock = &self.shared.clock;
        // A rule that remembers refusals must not be asked twice.
        let mut now = if R::REMEMBERS_REFUSALS {
            clock.precise_now()
        } else {
            clock.now()
        };
        let mut decided = self.decide(key, demand, now);
        // By a clock that is late it may have been refused for that alone.
        if let Decided::Refused(denied) = &decided
            && !R::REMEMBERS_REFUSALS
            && let Some(precise) = clock.refine(now, denied.ready_at())
        {
            now = precise;
            decided = self.decide(key, demand, now);
        }
        match decided {
            Decided::Granted => Ok(Permit::spent(demand.granted(now))),
            Decided::Refused(denied) => Err(denied),
            Decided::Widen => Err(self.shared.keys_full(&self.shared.shards[0].lock().rule)),
            Decided::Ask(gate) => Ok(gate.try_acquire(demand)?.into_owned()),
        }
    }

    /// Takes for `key`, waiting in the queue of the key if there is one. See [`Gate::acquire`].
    ///
    /// # Errors
    ///
    /// [`Denied`] says why.
    pub async fn acquire<Q>(
        &self,
        key: &Q,
        demand: impl Into<Demand>,
    ) -> Result<Permit<'static>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let demand = demand.into();
        let answer = match self.attempt(key, demand) {
            Ok(permit) => Ok(permit.into_owned()),
            Err(denied) if self.shared.queue.is_none() || !denied.reason().is_passing() => {
                Err(denied)
            }
            Err(_) => match self.gate(key) {
                Ok(gate) => gate.acquire(demand).await.map(Permit::into_owned),
                Err(denied) => Err(denied),
            },
        };
        match answer {
            Ok(_) => self.shared.totals.granted(),
            Err(_) => self.shared.totals.denied(),
        }
        answer
    }

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing, counts nothing and leaves no key
    /// behind.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn estimate<Q>(&self, key: &Q, demand: impl Into<Demand>) -> Result<(), Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let demand = demand.into();
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, now);
        let known = match table.find(hash, key) {
            Some(Found::Word(rule, word)) => Some(rule.unpack(*word, now)),
            Some(Found::Wide(_, wide)) => match &wide.what {
                What::State(state) => Some(state.clone()),
                What::Gate { gate, .. } => return gate.estimate(demand),
            },
            None => None,
        };
        let rule = Arc::clone(&table.rule);
        drop(table);
        let mut state = match known {
            Some(state) => state,
            None if shared.would_have_room(now) => rule.fresh_key(now),
            None => return Err(shared.keys_full(&rule)),
        };
        shared.take(&rule, &mut state, now, demand)
    }

    /// Takes as many for `key` as there are, at most `most`; the permit says how many.
    pub fn take_up_to<Q>(&self, key: &Q, most: u32) -> Permit<'_>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        match self.gate(key) {
            Ok(gate) => gate.take_up_to(most).into_owned(),
            Err(_) => {
                let nothing = Demand::of(0).granted(self.shared.clock.now());
                Permit::spent(nothing)
            }
        }
    }

    /// The limiter of one key, to wait with, reserve from, or put into an [`All`](crate::All). The key is kept
    /// as long as the limiter is.
    ///
    /// # Errors
    ///
    /// If there is no room for another key.
    pub fn gate<Q>(&self, key: &Q) -> Result<Gate<R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        self.gate_of(key, false)
    }

    fn gate_of<Q>(&self, key: &Q, pin: bool) -> Result<Gate<R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        let (shard, hash) = shared.locate(key);
        let mut table = shared.with_key(shard, hash, key, now)?;
        table.widen(hash, key, now);
        match table.find(hash, key) {
            Some(Found::Wide(rule, wide)) => {
                let gate = shared.gate_in(rule, wide, now);
                if let What::Gate { pinned, .. } = &mut wide.what {
                    *pinned |= pin;
                }
                shared.note(&mut table, hash, key, now);
                Ok(gate)
            }
            // It was put there a moment ago, under the same lock.
            _ => Err(shared.keys_full(&table.rule)),
        }
    }

    /// Gives `key` limits of its own, which it keeps until it is [forgotten](Self::forget). What it has used
    /// is carried over as `carry` says.
    ///
    /// # Errors
    ///
    /// If there is no room for another key.
    pub fn set_limit<Q>(&self, key: &Q, rule: R, carry: Carry) -> Result<(), Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        // Not under the lock of the shard: a larger limit wakes who waits.
        let gate = self.gate_of(key, true)?;
        gate.replace_rule(rule, self.shared.clock.precise_now(), carry);
        Ok(())
    }

    /// Forgets what `key` has used, and limits of its own. Who waits for it already is still served.
    pub fn forget<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shared = &*self.shared;
        let (shard, hash) = shared.locate(key);
        let known = shared
            .locked(shard, shared.clock.precise_now())
            .remove(hash, key);
        if known {
            shared.len.fetch_sub(1, Ordering::Relaxed);
        }
        known
    }

    /// Changes the limit of all keys that have none of their own, shard by shard. `carry` says what becomes of
    /// what they have used.
    pub fn replace(&self, mut rule: R, carry: Carry) {
        const {
            assert!(
                !R::GIVES_BACK,
                "a limit that is given back to is resized, not replaced"
            )
        };
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        rule.begin(now);
        let rule = Arc::new(rule);
        for shard in 0..shared.shards.len() {
            // Gates are changed when the lock of the shard is free: that may wake who waits.
            let gates = shared.locked(shard, now).replace(&rule, now, carry);
            for gate in gates {
                gate.replace_rule(R::clone(&rule), now, carry);
            }
        }
        shared
            .forgettable_from
            .fetch_min(now.as_nanos(), Ordering::Relaxed);
    }

    /// How many keys are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len.load(Ordering::Relaxed)
    }

    /// Whether no key is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn decide<Q>(&self, key: &Q, demand: Demand, mut now: Moment) -> Decided<R>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        shared.sweep_now_and_then(now);
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, now);
        let mut decided = table
            .find(hash, key)
            .map(|found| shared.decide(found, now, demand));
        if decided.is_none() {
            drop(table);
            table = match shared.with_key(shard, hash, key, now) {
                Ok(table) => table,
                Err(denied) => return Decided::Refused(denied),
            };
            // Whoever read the clock before its key was forgotten comes after that all the same.
            now = now.max(table.forgot_at);
            decided = table
                .find(hash, key)
                .map(|found| shared.decide(found, now, demand));
            shared.note(&mut table, hash, key, now);
        }
        match decided {
            Some(Decided::Widen) => {}
            Some(decided) => return decided,
            None => return Decided::Refused(shared.keys_full(&table.rule)),
        }
        table.widen(hash, key, now);
        match table.find(hash, key) {
            Some(found) => shared.decide(found, now, demand),
            None => Decided::Refused(shared.keys_full(&table.rule)),
        }
    }
}

impl<K, R: Rule, S> Clone for Keyed<K, R, S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K, R: Rule, S> fmt::Debug for Keyed<K, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("name", &self.shared.name.map(Name::as_str))
            .field("keys", &self.shared.len)
            .field("max_keys", &self.shared.max_keys)
            .finish_non_exhaustive()
    }
}
