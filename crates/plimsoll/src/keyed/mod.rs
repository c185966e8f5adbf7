//! A limit for each key.

mod builder;
mod report;
mod table;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::table::{Found, Table, What};
use crate::name::Name;
use crate::permit::Spent;
use crate::totals::Totals;
use crate::{
    Carry, Clock, Demand, Denied, Gate, Moment, Permit, Queue, Reason, Refusal, Rule, Short,
};

pub use builder::{KeyedBuilder, WhenFull};

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
/// At most [`max_keys`](KeyedBuilder::max_keys), a million unless set. A state that is no worse than that of a
/// new key is forgotten as a matter of course, a few at a time by whoever comes along; no thread is needed,
/// and nobody gains by being forgotten. When all places are taken by keys that would gain, a new key is
/// refused ([`Reason::KeysFull`]) or takes the place of the least recently used, as
/// [`when_full`](KeyedBuilder::when_full) says.
///
/// # Who waits for whom
///
/// Keys are spread over shards by a keyed hash, so that nobody can aim at one. A decision holds the lock of
/// its shard for some twenty nanoseconds.
pub struct Keyed<K, R: Rule, S = RandomState> {
    shared: Arc<Shared<K, R, S>>,
}

struct Shared<K, R: Rule, S> {
    shards: Box<[Shard<K, R>]>,
    hasher: S,
    clock: Clock,
    queue: Option<Queue>,
    name: Option<Name>,
    max_keys: usize,
    when_full: WhenFull,
    len: AtomicUsize,
    /// Before this moment no state anywhere can be forgotten: spares a full table the search.
    forgettable_from: AtomicU64,
    /// The shard to be swept next, and when.
    next_swept: AtomicUsize,
    next_sweep: AtomicU64,
    totals: Totals,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shard<K, R: Rule>(Mutex<Table<K, R>>);

/// How often somebody sweeps a shard while there is traffic.
const SWEEP_EVERY: u64 = 1_000_000;

impl<K, R: Rule> Shard<K, R> {
    fn lock(&self) -> MutexGuard<'_, Table<K, R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a demand behind the lock of a shard.
enum Decided<R: Rule> {
    Granted,
    Refused(Denied),
    /// The key has a gate, which decides.
    Ask(Gate<R>),
    /// What would remain does not fit the word.
    Widen,
}

impl<K: Hash + Eq, R: Rule + Clone> Keyed<K, R> {
    /// The same limit for each key, at most a million of them, on the system's clock.
    pub fn new(rule: R) -> Self {
        Self::builder(rule).build()
    }

    /// A keyed limit with other settings.
    pub fn builder(rule: R) -> KeyedBuilder<R> {
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
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let answer = self.attempt(key, demand.into());
        match answer {
            Ok(_) => self.shared.totals.granted(),
            Err(_) => self.shared.totals.denied(),
        }
        answer
    }

    fn attempt<Q>(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let now = self.shared.clock.now();
        match self.decide(key, demand, now) {
            Decided::Granted => Ok(Permit::new(&Spent, demand.cost, now, false)),
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
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
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
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let taken = match self.gate(key) {
            Ok(gate) => return gate.take_up_to(most).into_owned(),
            Err(_) => 0,
        };
        Permit::new(&Spent, taken, self.shared.clock.now(), false)
    }

    /// The limiter of one key, to wait with, reserve from, or put into an [`All`](crate::All). The key is kept
    /// as long as the limiter is.
    ///
    /// # Errors
    ///
    /// If there is no room for another key.
    pub fn gate<Q>(&self, key: &Q) -> Result<Gate<R>, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        let (shard, hash) = shared.locate(key);
        let mut table = shared.with_key(shard, hash, key, now)?;
        table.widen(hash, key, now);
        match table.find(hash, key) {
            Some(Found::Wide(rule, wide)) => Ok(shared.gate_in(rule, wide, now)),
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
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.clock.precise_now();
        let (shard, hash) = shared.locate(key);
        let mut table = shared.with_key(shard, hash, key, now)?;
        table.widen(hash, key, now);
        if let Some(Found::Wide(old, wide)) = table.find(hash, key) {
            shared
                .gate_in(old, wide, now)
                .replace_rule(rule, now, carry);
            if let What::Gate { pinned, .. } = &mut wide.what {
                *pinned = true;
            }
        }
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
            shared.locked(shard, now).replace(&rule, now, carry);
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
    fn decide<Q>(&self, key: &Q, demand: Demand, now: Moment) -> Decided<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let shared = &*self.shared;
        shared.sweep_now_and_then(now);
        let (shard, hash) = shared.locate(key);
        let mut table = shared.locked(shard, now);
        if table.find(hash, key).is_none() {
            drop(table);
            table = match shared.with_key(shard, hash, key, now) {
                Ok(table) => table,
                Err(denied) => return Decided::Refused(denied),
            };
        }
        let decided = table
            .find(hash, key)
            .map(|found| shared.decide(found, now, demand));
        if !matches!(decided, Some(Decided::Widen)) {
            return decided.unwrap_or_else(|| Decided::Refused(shared.keys_full(&table.rule)));
        }
        table.widen(hash, key, now);
        match table.find(hash, key) {
            Some(found) => shared.decide(found, now, demand),
            None => Decided::Refused(shared.keys_full(&table.rule)),
        }
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    /// The shard of a key, and its hash.
    #[inline]
    fn locate<Q: Hash + ?Sized>(&self, key: &Q) -> (usize, u64) {
        let hash = self.hasher.hash_one(key);
        // The table within a shard uses the low and the very highest bits.
        let shard = (hash >> 40) as usize & (self.shards.len() - 1);
        (shard, hash)
    }

    /// The table of a shard, with words that are good at `now`.
    #[inline]
    fn locked(&self, shard: usize, now: Moment) -> MutexGuard<'_, Table<K, R>> {
        let mut table = self.shards[shard].lock();
        if table.is_stale(now) {
            self.sweep(&mut table, now);
        }
        table
    }

    fn sweep(&self, table: &mut Table<K, R>, now: Moment) -> usize {
        let forgotten = table.sweep(&self.hasher, now);
        self.len.fetch_sub(forgotten, Ordering::Relaxed);
        forgotten
    }

    /// Decides by the state of a key.
    #[inline]
    fn decide(&self, found: Found<'_, R>, now: Moment, demand: Demand) -> Decided<R> {
        match found {
            Found::Word(rule, word) if demand.cost > 0 => {
                match rule.take_short(*word, now, demand.cost) {
                    Short::Taken(next) => {
                        *word = next;
                        return Decided::Granted;
                    }
                    Short::Refused(refusal) if demand.cost == 1 => {
                        return Decided::Refused(self.denied(rule, refusal, now, 0));
                    }
                    _ => {}
                }
                let mut state = rule.unpack(*word, now);
                match (
                    self.take(rule, &mut state, now, demand),
                    rule.pack(&state, now),
                ) {
                    (Err(denied), _) => Decided::Refused(denied),
                    (Ok(()), None) => Decided::Widen,
                    (Ok(()), Some(next)) => {
                        *word = next;
                        Decided::Granted
                    }
                }
            }
            Found::Word(rule, word) => {
                let answer = self.take(rule, &mut rule.unpack(*word, now), now, demand);
                answer.map_or_else(Decided::Refused, |()| Decided::Granted)
            }
            Found::Wide(rule, wide) => {
                wide.used = wide.used.max(now);
                match &mut wide.what {
                    What::State(state) if !R::GIVES_BACK => {
                        let answer = self.take(rule, state, now, demand);
                        answer.map_or_else(Decided::Refused, |()| Decided::Granted)
                    }
                    _ => Decided::Ask(self.gate_in(rule, wide, now)),
                }
            }
        }
    }

    /// Takes from a state, or says why not.
    fn take(
        &self,
        rule: &R,
        state: &mut R::State,
        now: Moment,
        demand: Demand,
    ) -> Result<(), Denied> {
        let too_large = demand.cost > rule.limit();
        let refusal = if too_large {
            Refusal::until_given_back().because(Reason::TooLarge)
        } else {
            match crate::gate::take(rule, state, now, demand.cost) {
                Ok(()) => return Ok(()),
                Err(refusal) => rule.refused(state, now, demand.cost, refusal),
            }
        };
        let full_at = rule.full_at(state, now).unwrap_or(Moment::NEVER);
        Err(self.denied(
            rule,
            refusal.full_at(full_at),
            now,
            rule.available(state, now),
        ))
    }

    fn denied(&self, rule: &R, refusal: Refusal, now: Moment, remaining: u32) -> Denied {
        Denied::from_rule(refusal, now, (rule.limit(), remaining), self.name)
    }

    fn keys_full(&self, rule: &R) -> Denied {
        let refusal = Refusal::until_given_back().because(Reason::KeysFull);
        self.denied(rule, refusal, Moment::ORIGIN, 0)
    }

    /// Makes a gate of what is there, if it is none yet.
    fn gate_in(&self, rule: &R, wide: &mut table::Wide<R>, now: Moment) -> Gate<R> {
        if let What::State(state) = &wide.what {
            let gate = Gate::resumed(
                rule.clone(),
                state.clone(),
                now,
                self.clock.clone(),
                self.queue,
                self.name,
            );
            wide.what = What::Gate {
                gate,
                pinned: false,
            };
        }
        match &wide.what {
            What::Gate { gate, .. } => gate.clone(),
            What::State(_) => unreachable!("made a gate of it above"),
        }
    }

    /// The table of a shard, with `key` in it.
    #[inline(never)]
    fn with_key<Q>(
        &self,
        shard: usize,
        hash: u64,
        key: &Q,
        now: Moment,
    ) -> Result<MutexGuard<'_, Table<K, R>>, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        // Made before anything is changed: it may panic.
        let mut owned = Some(key.to_owned());
        let mut table = self.locked(shard, now);
        for searched in [false, true] {
            if table.find(hash, key).is_some() {
                return Ok(table);
            }
            if self.has_room(&mut table, now)
                && let Some(key) = owned.take()
            {
                self.len.fetch_add(1, Ordering::Relaxed);
                let state = table.rule.fresh_key(now);
                table.insert(&self.hasher, hash, key, What::State(state), now);
                let from = table.forgettable_from.as_nanos();
                self.forgettable_from.fetch_min(from, Ordering::Relaxed);
                return Ok(table);
            }
            if !searched {
                drop(table);
                self.search_room(now);
                table = self.locked(shard, now);
            }
        }
        Err(self.keys_full(&table.rule))
    }

    /// Whether there is room for another key, if need be by forgetting one of this shard.
    fn has_room(&self, table: &mut Table<K, R>, now: Moment) -> bool {
        if self.len.load(Ordering::Relaxed) < self.max_keys {
            return true;
        }
        if table.forgettable_from <= now && self.sweep(table, now) > 0 {
            return true;
        }
        if self.when_full == WhenFull::EvictLeastRecent && table.evict_least_recent(&self.hasher) {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Whether a new key would find room.
    fn would_have_room(&self, now: Moment) -> bool {
        let room = || self.len.load(Ordering::Relaxed) < self.max_keys;
        if room() || self.when_full == WhenFull::EvictLeastRecent {
            return true;
        }
        self.search_room(now);
        room()
    }

    /// Forgets what can be forgotten anywhere, unless it is known that nothing can.
    fn search_room(&self, now: Moment) {
        if now.as_nanos() < self.forgettable_from.load(Ordering::Relaxed) {
            return;
        }
        let mut earliest = Moment::NEVER;
        for shard in &self.shards {
            let mut table = shard.lock();
            if table.forgettable_from <= now {
                self.sweep(&mut table, now);
            }
            earliest = earliest.min(table.forgettable_from);
        }
        // States made meanwhile lower it again.
        self.forgettable_from
            .store(earliest.as_nanos(), Ordering::Relaxed);
    }

    /// Sweeps the next shard if it is time to. Nobody waits for it.
    #[inline]
    fn sweep_now_and_then(&self, now: Moment) {
        let due = self.next_sweep.load(Ordering::Relaxed);
        if now.as_nanos() >= due {
            self.sweep_next(now, due);
        }
    }

    #[cold]
    fn sweep_next(&self, now: Moment, due: u64) {
        let next = now.plus_nanos(SWEEP_EVERY).as_nanos();
        let mine =
            self.next_sweep
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_err() {
            return;
        }
        let shard = self.next_swept.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
        if let Ok(mut table) = self.shards[shard].0.try_lock()
            && table.forgettable_from <= now
        {
            self.sweep(&mut table, now);
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
