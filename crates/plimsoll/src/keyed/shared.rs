//! What all clones of a keyed limit share, and how a key is found, made and forgotten.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::WhenFull;
use super::table::{Found, Table};
use super::wide::{What, Wide};
use crate::name::Name;
use crate::totals::Totals;
use crate::{Clock, Demand, Denied, Gate, Moment, Queue, Reason, Refusal, Rule, Short};

pub(super) struct Shared<K, R: Rule, S> {
    pub(super) shards: Box<[Shard<K, R>]>,
    pub(super) hasher: S,
    pub(super) clock: Clock,
    pub(super) queue: Option<Queue>,
    pub(super) name: Option<Name>,
    pub(super) max_keys: usize,
    pub(super) when_full: WhenFull,
    pub(super) len: AtomicUsize,
    /// Before this moment no state anywhere can be forgotten: spares a full table the search.
    pub(super) forgettable_from: AtomicU64,
    /// The shard to be swept next, and when.
    pub(super) next_swept: AtomicUsize,
    pub(super) next_sweep: AtomicU64,
    pub(super) totals: Totals,
}

/// On cache lines of its own.
#[repr(align(128))]
pub(super) struct Shard<K, R: Rule>(pub(super) Mutex<Table<K, R>>);

/// How often somebody sweeps a part of a shard while there is traffic, in nanoseconds, and how many buckets.
const SWEEP_EVERY: u64 = 1_000_000;
const SWEPT_AT_ONCE: usize = 1024;

impl<K, R: Rule> Shard<K, R> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table<K, R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a demand behind the lock of a shard.
pub(super) enum Decided<R: Rule> {
    Granted,
    Refused(Denied),
    /// The key has a gate, which decides.
    Ask(Gate<R>),
    /// What would remain does not fit the word.
    Widen,
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    /// The shard of a key, and its hash.
    #[inline]
    pub(super) fn locate<Q: Hash + ?Sized>(&self, key: &Q) -> (usize, u64) {
        let hash = self.hasher.hash_one(key);
        // The table within a shard uses the low and the very highest bits.
        let shard = (hash >> 40) as usize & (self.shards.len() - 1);
        (shard, hash)
    }

    /// The table of a shard, with words that are good at `now`.
    #[inline]
    pub(super) fn locked(&self, shard: usize, now: Moment) -> MutexGuard<'_, Table<K, R>> {
        let mut table = self.shards[shard].lock();
        if table.is_stale(now) {
            self.sweep(&mut table, now);
        }
        table
    }

    /// Takes for a key whose state is a word, if that is all there is to do.
    #[inline]
    pub(super) fn take_short<Q>(&self, key: &Q, now: Moment, cost: u32) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (shard, hash) = self.locate(key);
        let is_swept = now.as_nanos() < self.next_sweep.load(Ordering::Relaxed);
        is_swept && cost > 0 && self.shards[shard].lock().take_short(hash, key, now, cost)
    }

    fn sweep(&self, table: &mut Table<K, R>, now: Moment) -> usize {
        let forgotten = table.sweep(&self.hasher, now);
        self.len.fetch_sub(forgotten, Ordering::Relaxed);
        forgotten
    }

    /// Decides by the state of a key.
    #[inline]
    pub(super) fn decide(&self, found: Found<'_, R>, now: Moment, demand: Demand) -> Decided<R> {
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
    pub(super) fn take(
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
        let full_at = rule
            .full_at(state, now)
            .map_or(Moment::NEVER, |at| at.max(now));
        Err(self.denied(
            rule,
            refusal.full_at(full_at),
            now,
            rule.remaining(state, now),
        ))
    }

    fn denied(&self, rule: &R, refusal: Refusal, now: Moment, remaining: u32) -> Denied {
        Denied::from_rule(refusal, now, (rule.limit(), remaining), self.name)
    }

    pub(super) fn keys_full(&self, rule: &R) -> Denied {
        let refusal = Refusal::until_given_back().because(Reason::KeysFull);
        self.denied(rule, refusal, Moment::ORIGIN, 0)
    }

    /// Makes a gate of what is there, if it is none yet.
    pub(super) fn gate_in(&self, rule: &R, wide: &mut Wide<R>, now: Moment) -> Gate<R> {
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

    /// Notes from when on a key that was new can be forgotten.
    pub(super) fn note<Q>(&self, table: &mut Table<K, R>, hash: u64, key: &Q, now: Moment)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        table.note(hash, key, now);
        let from = table.forgettable_from.as_nanos();
        self.forgettable_from.fetch_min(from, Ordering::Relaxed);
    }

    /// The table of a shard, with `key` in it, to be [noted](Self::note) when it has been used.
    #[inline(never)]
    pub(super) fn with_key<Q>(
        &self,
        shard: usize,
        hash: u64,
        key: &Q,
        now: Moment,
    ) -> Result<MutexGuard<'_, Table<K, R>>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        // Made before anything is changed: it may panic.
        let mut owned = Some(K::from(key.to_owned()));
        let mut table = self.locked(shard, now);
        for searched in [false, true] {
            if table.find(hash, key).is_some() {
                return Ok(table);
            }
            if self.has_room(&mut table, now)
                && self.claim_place()
                && let Some(key) = owned.take()
            {
                let now = now.max(table.forgot_at);
                let state = table.rule.fresh_key(now);
                table.insert(&self.hasher, hash, key, state, now);
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

    /// Takes one of the places, unless others have taken the last one meanwhile.
    fn claim_place(&self) -> bool {
        let claim = |len: usize| (len < self.max_keys).then_some(len + 1);
        self.len
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim)
            .is_ok()
    }

    /// Whether there is room for another key, if need be by forgetting one of this shard.
    fn has_room(&self, table: &mut Table<K, R>, now: Moment) -> bool {
        if self.len.load(Ordering::Relaxed) < self.max_keys {
            return true;
        }
        if self.forget_one(table, now) {
            return true;
        }
        if self.when_full == WhenFull::EvictLeastRecent && table.evict_least_recent() {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Whether a new key would find room.
    pub(super) fn would_have_room(&self, now: Moment) -> bool {
        let room = || self.len.load(Ordering::Relaxed) < self.max_keys;
        if room() || self.when_full == WhenFull::EvictLeastRecent {
            return true;
        }
        self.search_room(now);
        room()
    }

    /// Forgets something of a shard, if anything can be forgotten.
    fn forget_one(&self, table: &mut Table<K, R>, now: Moment) -> bool {
        let mut rounds = 0;
        // What is left of this round, and one more.
        while table.forgettable_from <= now && rounds < 2 {
            let (ended, forgotten) = self.sweep_some(table, now);
            if forgotten > 0 {
                return true;
            }
            rounds += u32::from(ended);
        }
        false
    }

    /// Forgets something anywhere, unless it is known that nothing can be forgotten.
    fn search_room(&self, now: Moment) {
        if now.as_nanos() < self.forgettable_from.load(Ordering::Relaxed) {
            return;
        }
        let mut earliest = Moment::NEVER;
        for shard in &self.shards {
            let mut table = shard.lock();
            if self.forget_one(&mut table, now) {
                return;
            }
            earliest = earliest.min(table.forgettable_from);
        }
        // States made meanwhile lower it again.
        self.forgettable_from
            .store(earliest.as_nanos(), Ordering::Relaxed);
    }

    fn sweep_some(&self, table: &mut Table<K, R>, now: Moment) -> (bool, usize) {
        if table.is_stale(now) {
            return (true, self.sweep(table, now));
        }
        let (ended, forgotten) = table.sweep_some(SWEPT_AT_ONCE, &self.hasher, now);
        self.len.fetch_sub(forgotten, Ordering::Relaxed);
        (ended, forgotten)
    }

    /// Sweeps the next shard if it is time to. Nobody waits for it.
    #[inline]
    pub(super) fn sweep_now_and_then(&self, now: Moment) {
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
        let next = self.next_swept.load(Ordering::Relaxed);
        let table = match self.shards[next & (self.shards.len() - 1)].0.try_lock() {
            Ok(table) => Some(table),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let ended = match table {
            Some(mut table) if table.is_to_be_swept(now) => {
                self.sweep_some(&mut table, now).0 && !table.is_moving()
            }
            Some(_) => true,
            None => false,
        };
        if ended {
            self.next_swept.store(next + 1, Ordering::Relaxed);
        }
    }
}
