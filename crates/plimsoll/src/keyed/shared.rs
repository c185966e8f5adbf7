//! The state that all clones of a keyed limit share, and how a key is found, inserted and evicted.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::WhenFull;
use super::key_gate::{Gates, Lease};
use super::table::Table;
use crate::{Denied, KeyedEvent, Listeners, Moment, Packed, Rule};

pub(super) struct Shared<K, R: Rule, S> {
    pub(super) shards: Box<[Shard<K, R>]>,
    pub(super) hasher: S,
    pub(super) gates: Gates,
    /// It may change, so there may be more keys than this.
    pub(super) max_keys: AtomicUsize,
    pub(super) when_full: WhenFull,
    /// The subscribers, which the tables hold too.
    pub(super) heard: Mutex<Option<Arc<Listeners<KeyedEvent<K>>>>>,
    /// Held while the rule of all keys changes.
    pub(super) changing: Mutex<()>,
    /// Whether the rules of all keys [refund exactly](Rule::refunds_exactly).
    pub(super) exact: AtomicBool,
    /// The number of keys with a state, and of keys with a rule of their own.
    pub(super) len: AtomicUsize,
    pub(super) own: AtomicUsize,
    /// Before this moment no state of any shard can be evicted, so a full table need not be searched.
    pub(super) evictable_from: AtomicU64,
    /// The shard to be swept next, and the moment.
    pub(super) next_swept: AtomicUsize,
    pub(super) next_sweep: AtomicU64,
}

/// Aligned to a cache line, with the lock in the first one. Not aligned to pairs of lines: locks would then lie at
/// multiples of 512 bytes, which map to few sets of a cache.
#[repr(align(64))]
pub(super) struct Shard<K, R: Rule>(pub(super) Mutex<Table<K, R>>);

/// The interval at which a part of a shard is swept while there is traffic, in nanoseconds, the least number of
/// slots swept, and for how long it is made up for: the kernel's coarse clock has ticks of up to ten milliseconds.
const SWEEP_EVERY: u64 = 1_000_000;
const SWEPT_AT_ONCE: usize = 1024;
const BEHIND: u64 = 10_000_000;

impl<K, R: Rule> Shard<K, R> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table<K, R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    /// Returns the shard of a key, and its hash.
    #[inline]
    pub(super) fn locate<Q: Hash + ?Sized>(&self, key: &Q) -> (usize, u64) {
        let hash = self.hasher.hash_one(key);
        // The table within a shard uses the upper half.
        let shard = hash & (self.shards.len() as u64 - 1);
        (usize::try_from(shard).unwrap_or(0), hash)
    }

    /// Locks the table of a shard, with words that are valid at `now`.
    #[inline]
    pub(super) fn locked(&self, shard: usize, now: Moment) -> MutexGuard<'_, Table<K, R>> {
        let mut table = self.shards[shard].lock();
        if table.is_stale(now) {
            self.sweep(&mut table, now);
        }
        table
    }

    /// The gate of a known key, found without reading the clock, for rules that do not depend on time. `None` decides
    /// nothing; it is returned occasionally also for a known key, so that a caller that reads the clock sweeps.
    #[inline]
    pub(super) fn timeless_gate<Q>(&self, key: &Q) -> Option<Lease<R>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // If the least recently used key is evicted, the use of a key must be recorded with its moment.
        if !is_timeless::<R>() || self.when_full == WhenFull::EvictLeastRecent {
            return None;
        }
        let (shard, hash) = self.locate(key);
        self.shards[shard].lock().timeless_gate(hash, key)
    }

    fn sweep(&self, table: &mut Table<K, R>, now: Moment) -> usize {
        let forgotten = table.sweep(&self.hasher, now);
        self.len.fetch_sub(forgotten, Ordering::Relaxed);
        forgotten
    }

    /// Records the moment from which a key can be evicted.
    pub(super) fn note<Q>(&self, table: &mut Table<K, R>, hash: u64, key: &Q, now: Moment)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(from) = table.evictable_from_of(hash, key, now) {
            self.note_from(table, hash, key, from);
        }
    }

    /// Records that a key can be evicted from this moment on.
    pub(super) fn note_from<Q>(&self, table: &mut Table<K, R>, hash: u64, key: &Q, from: Moment)
    where
        Q: Hash + ?Sized,
    {
        table.note_forgettable_key(hash, key, from);
        let from = table.evictable_from.as_nanos();
        // A search of all shards raises this first, and then visits this table under its lock.
        if from < self.evictable_from.load(Ordering::Relaxed) {
            self.evictable_from.fetch_min(from, Ordering::Relaxed);
        }
    }

    /// Locks the table of a shard, with `key` inserted. Call [`note`](Self::note) once the key has been used.
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
        // Created before anything is changed, because it may panic.
        let mut owned = Some(K::from(key.to_owned()));
        let mut table = self.locked(shard, now);
        let mut found = None;
        for searched in [false, true] {
            if table.find(hash, key).is_some() {
                return Ok(table);
            }
            let place = found
                .take()
                .or_else(|| self.take_place(&mut table, shard, now));
            if let Some(place) = place
                && let Some(key) = owned.take()
            {
                let now = now.max(table.forgot_at);
                self.make_room(&mut table, hash, &key, now);
                table.insert(&self.hasher, hash, key, now);
                place.keep();
                return Ok(table);
            }
            if !searched {
                drop(table);
                found = self.search_room(now);
                table = self.locked(shard, now);
            }
        }
        Err(self.keys_full(table.rule_of(key)))
    }

    /// Evicts keys that can be evicted if the table would otherwise have to grow for a new key.
    #[inline]
    pub(super) fn make_room(&self, table: &mut Table<K, R>, hash: u64, key: &K, now: Moment) {
        let forgotten = table.make_room(hash, key, &self.hasher, now);
        if forgotten > 0 {
            self.len.fetch_sub(forgotten, Ordering::Relaxed);
        }
    }

    /// Claims a place for a key, unless all are taken.
    pub(super) fn claim_place(&self) -> Option<Place<'_>> {
        claim(&self.len, self.max_keys()).then(|| Place(&self.len))
    }

    /// Claims a place for the rule of a single key.
    pub(super) fn claim_own(&self) -> bool {
        claim(&self.own, self.max_keys())
    }

    fn has_free_place(&self) -> bool {
        self.len.load(Ordering::Relaxed) < self.max_keys()
    }

    fn max_keys(&self) -> usize {
        self.max_keys.load(Ordering::Relaxed)
    }

    /// Claims a place for another key, after evicting one of this shard if needed.
    fn take_place(&self, table: &mut Table<K, R>, shard: usize, now: Moment) -> Option<Place<'_>> {
        let free = self.claim_place();
        let free = free.or_else(|| {
            let forgotten = self.forget_one(table, shard, now);
            forgotten.then(|| self.claim_place()).flatten()
        });
        if free.is_some() || self.when_full == WhenFull::Refuse {
            return free;
        }
        // The place of the evicted key is passed on instead of freed: another thread could claim it first.
        let place = self.evict(table)?;
        if self.len.load(Ordering::Relaxed) > self.max_keys() {
            // The maximum was lowered: one more key is evicted, and its place is given up.
            drop(self.evict(table));
        }
        Some(place)
    }

    /// Whether a new key would find room.
    pub(super) fn would_have_room(&self, now: Moment) -> bool {
        if self.has_free_place() {
            return true;
        }
        if self.when_full == WhenFull::EvictLeastRecent {
            return self.shards.iter().any(|shard| shard.lock().can_evict());
        }
        drop(self.search_room(now));
        self.has_free_place()
    }

    /// Evicts a key, and returns its place.
    fn evict(&self, table: &mut Table<K, R>) -> Option<Place<'_>> {
        let evicted = table.evict_least_recent(&self.hasher, &self.gates.clock);
        evicted.then(|| Place(&self.len))
    }

    /// Evicts a key of a shard, if any can be evicted.
    fn forget_one(&self, table: &mut Table<K, R>, shard: usize, now: Moment) -> bool {
        if self.gates.room.take_ended(shard) {
            table.note_forgettable(now);
        }
        let mut rounds = 0;
        // The rest of this round, and one more.
        while table.evictable_from <= now && rounds < 2 {
            let (ended, forgotten) = self.sweep_some(table, now);
            if forgotten > 0 {
                return true;
            }
            rounds += u32::from(ended);
        }
        false
    }

    /// Evicts a key of any shard, unless it is known that none can be evicted. Returns its place if it was evicted as the least
    /// recently used one.
    fn search_room(&self, now: Moment) -> Option<Place<'_>> {
        let known = self.evictable_from.load(Ordering::Relaxed) <= now.as_nanos();
        if known || self.gates.room.any_ended() {
            // Moments recorded during the search are not lost: they lower this again.
            self.evictable_from.store(u64::MAX, Ordering::Relaxed);
            let mut earliest = Moment::NEVER;
            for (number, shard) in self.shards.iter().enumerate() {
                let mut table = shard.lock();
                if self.forget_one(&mut table, number, now) {
                    // More keys may be evictable, here and in the following shards.
                    earliest = now;
                    break;
                }
                earliest = earliest.min(table.evictable_from);
            }
            let earliest = earliest.as_nanos();
            self.evictable_from.fetch_min(earliest, Ordering::Relaxed);
        }
        if self.when_full == WhenFull::Refuse || self.has_free_place() {
            return None;
        }
        // The shard of the new key has nothing to evict.
        let mut shards = self.shards.iter();
        shards.find_map(|shard| self.evict(&mut shard.lock()))
    }

    fn sweep_some(&self, table: &mut Table<K, R>, now: Moment) -> (bool, usize) {
        if table.is_stale(now) {
            return (true, self.sweep(table, now));
        }
        let (ended, forgotten) = table.sweep_some(SWEPT_AT_ONCE, &self.hasher, now);
        self.len.fetch_sub(forgotten, Ordering::Relaxed);
        (ended, forgotten)
    }

    /// Sweeps the next shard if a sweep is due and its lock is free.
    #[inline]
    pub(super) fn sweep_now_and_then(&self, now: Moment) {
        let due = self.next_sweep.load(Ordering::Relaxed);
        if now.as_nanos() >= due {
            self.sweep_next(now, due);
        }
    }

    #[cold]
    fn sweep_next(&self, now: Moment, due: u64) {
        let next_sweep = &self.next_sweep;
        let next = now.plus_nanos(SWEEP_EVERY).as_nanos();
        let mine = next_sweep.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
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
                let due = due.max(now.as_nanos().saturating_sub(BEHIND));
                next_sweep.store(due.saturating_add(SWEEP_EVERY), Ordering::Relaxed);
                self.sweep_some(&mut table, now).0
            }
            Some(_) => true,
            None => false,
        };
        if ended {
            self.next_swept.store(next + 1, Ordering::Relaxed);
        }
    }
}

/// A place claimed for a key that is about to be inserted. Dropping it, for example because the hash of the key panics, frees the place.
pub(super) struct Place<'a>(&'a AtomicUsize);

impl Place<'_> {
    /// Leaves the place to the inserted key.
    pub(super) fn keep(self) {
        let _kept = ManuallyDrop::new(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether decisions of a rule need no time.
pub(super) const fn is_timeless<R: Rule>() -> bool {
    R::RETURNS_PERMITS && R::Fast::TIMELESS
}

/// Adds one to the count, unless it has reached `most`.
fn claim(count: &AtomicUsize, most: usize) -> bool {
    let claim = |count: usize| (count < most).then_some(count + 1);
    count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim)
        .is_ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::{Concurrency, Keyed, ManualClock, PerKey, Queue, Quota, TokenBucket};

    /// The number of times that granted demands of a known key read the clock.
    fn reads<R: crate::Rule + Clone>(rule: R) -> u64 {
        let time = ManualClock::new();
        let keyed: Keyed<u64, _> = Keyed::builder(rule)
            .queue(Queue::fifo(10).timeout(Duration::from_secs(1)))
            .clock(time.clock())
            .build();
        drop(keyed.try_acquire(&1, 1));
        let before = time.reads();
        for _ in 0..10 {
            assert!(keyed.try_acquire(&1, 1).is_ok());
            assert!(PerKey::attempt(&keyed, &1, 1.into()).is_ok());
            assert!(keyed.acquire_blocking(&1, 1).is_ok());
        }
        time.reads() - before
    }

    #[test]
    fn no_clock_is_read_for_a_known_key_of_a_rule_that_does_not_depend_on_time() {
        assert_eq!(reads(Concurrency::new(1)), 0);
        assert!(reads(TokenBucket::per_second(100)) > 0);
    }

    /// With a large refill, the words of a table were good for microseconds: every demand wrote all words of its shard anew.
    #[test]
    fn no_table_has_words_that_are_good_for_an_instant_only() {
        let day = |units| Quota::new(units, Duration::from_secs(86_400));
        for (rule, has_words) in [
            (TokenBucket::interval(day(1 << 44)), true),
            (TokenBucket::interval(day(u64::MAX)), false),
            (TokenBucket::greedy(day(999_999_999_989)), false),
        ] {
            let time = ManualClock::new();
            let keyed: Keyed<u64, _> = Keyed::builder(rule).clock(time.clock()).build();
            assert!(keyed.try_acquire(&1, 1).is_ok());
            let later = time.now().plus(Duration::from_secs(1));
            for shard in &keyed.shared.shards {
                let table = shard.lock();
                assert_eq!(
                    (table.is_stale(later), table.inserts_words()),
                    (false, has_words)
                );
            }
        }
    }
}
