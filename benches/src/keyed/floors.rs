//! What no table of limits can do without: reading the key, finding a place in memory by it, and changing a
//! word there. Each on a published word for a clock and on the processor's counter, since reading the latter keeps
//! the processor from looking ahead to the next key. The last ones add what a table needs that can also grow: a lock for each of its
//! shards, on the clock that ours read by default; and segments, without which it has to be moved as a whole when it grows.

use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hashbrown::{DefaultHashBuilder, HashMap};

use super::contenders::Worth;
use super::contenders::{Entrant, Limit, Limiter};
use super::keys::Key;
use crate::contender::Role::Floor;
use crate::floors::{Counts, PUBLISHED, refuse, swap_in};

pub(crate) const NOTHING: &str = "nothing but reading the key";
pub(crate) const ONE_LOAD: &str = "lock-free, 16 bytes an entry, word for a clock";
pub(crate) const IN_SEGMENTS: &str =
    "64 locks, segments of 16 bytes an entry, kernel's coarse clock, answers whole and counted";

pub(super) fn all<K: Key>() -> Vec<Entrant<K>> {
    let floor = |name, make| Entrant::new(Floor, name, Worth::Floor, make);
    vec![
        nothing(),
        floor("hashbrown, unsynchronised, word for a clock", |limit| {
            Box::new(Unsynchronised::new(limit, Word))
        }),
        floor("hashbrown, unsynchronised, processor's counter", |limit| {
            Box::new(Unsynchronised::new(limit, quanta::Clock::new()))
        }),
        floor(ONE_LOAD, |limit| Box::new(LockFree::new(limit, Word))),
        floor(
            "lock-free, 16 bytes an entry, processor's counter",
            |limit| Box::new(LockFree::new(limit, quanta::Clock::new())),
        ),
        floor(
            "64 locks, 16 bytes an entry, kernel's coarse clock",
            |limit| {
                Box::new(Locked::<_, Piece>::new(
                    limit,
                    plimsoll::Clock::system(),
                    false,
                ))
            },
        ),
        floor(
            "64 locks, 16 bytes an entry, kernel's coarse clock, answers whole and counted",
            |limit| {
                Box::new(Locked::<_, Piece>::new(
                    limit,
                    plimsoll::Clock::system(),
                    true,
                ))
            },
        ),
        floor(IN_SEGMENTS, |limit| {
            Box::new(Locked::<_, Vec<Piece>>::new(
                limit,
                plimsoll::Clock::system(),
                true,
            ))
        }),
    ]
}

/// What the loop takes around a limiter.
pub(super) fn nothing<K: Key>() -> Entrant<K> {
    Entrant::new(Floor, NOTHING, Worth::Floor, |limit| {
        Box::new(Nothing {
            answer: limit.burst > 2,
        })
    })
}

/// Says what is expected of it.
struct Nothing {
    answer: bool,
}

impl<K: Key> Limiter<K> for Nothing {
    #[inline(always)]
    fn ask(&self, key: &K) -> bool {
        black_box(key.touch());
        self.answer
    }

    fn take(&self, key: &K, _: u32) -> bool {
        self.ask(key)
    }
}

trait Time: Sync + 'static {
    fn now(&self) -> u64;
}

struct Word;

impl Time for Word {
    fn now(&self) -> u64 {
        PUBLISHED.load(Ordering::Acquire)
    }
}

impl Time for quanta::Clock {
    fn now(&self) -> u64 {
        self.raw()
    }
}

impl Time for plimsoll::Clock {
    fn now(&self) -> u64 {
        self.now().as_nanos()
    }
}

/// The moment at which a bucket is full again is all there is to a bucket.
struct Bucket {
    token: u64,
    depth: u64,
}

impl Bucket {
    fn new(limit: &Limit) -> Self {
        let token = u64::try_from(limit.every.as_nanos()).unwrap_or(u64::MAX);
        let depth = token * u64::from(limit.burst);
        Self { token, depth }
    }

    fn taken(&self, full_at: u64, now: u64, cost: u32) -> Option<u64> {
        let full_at = full_at.max(now) + self.token * u64::from(cost);
        (full_at <= now + self.depth).then_some(full_at)
    }
}

/// Two who change the same state may lose a change. Knows no keys but those it was filled with.
struct Unsynchronised<K, C> {
    states: HashMap<K, AtomicU64>,
    bucket: Bucket,
    clock: C,
}

impl<K, C> Unsynchronised<K, C> {
    fn new(limit: &Limit, clock: C) -> Self {
        Self {
            states: HashMap::new(),
            bucket: Bucket::new(limit),
            clock,
        }
    }
}

impl<K: Key, C: Time> Limiter<K> for Unsynchronised<K, C> {
    #[inline(always)]
    fn ask(&self, key: &K) -> bool {
        self.take(key, 1)
    }

    fn take(&self, key: &K, cost: u32) -> bool {
        let Some(state) = self.states.get(key) else {
            return false;
        };
        let full_at = state.load(Ordering::Relaxed);
        let next = self.bucket.taken(full_at, self.clock.now(), cost);
        if let Some(full_at) = next {
            state.store(full_at, Ordering::Relaxed);
        }
        next.is_some()
    }

    fn fill(&mut self, key: &K, cost: u32) {
        let full_at = self.bucket.taken(0, self.clock.now(), cost).unwrap_or(0);
        self.states.insert(key.clone(), AtomicU64::new(full_at));
    }
}

/// Open addressing in a table that never grows. An entry is a word of the key and a state; a text is known by
/// its word alone, which no limiter could do.
struct LockFree<C> {
    entries: Box<[Entry]>,
    hasher: DefaultHashBuilder,
    bucket: Bucket,
    clock: C,
}

#[derive(Default)]
#[repr(align(16))]
struct Entry {
    key: AtomicU64,
    full_at: AtomicU64,
}

impl<C> LockFree<C> {
    fn new(limit: &Limit, clock: C) -> Self {
        let places = (limit.keys + limit.keys / 2).next_power_of_two();
        Self {
            entries: (0..places).map(|_| Entry::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            bucket: Bucket::new(limit),
            clock,
        }
    }

    fn find(&self, word: u64) -> &AtomicU64 {
        // Nought is an empty place.
        let word = word.max(1);
        let mask = self.entries.len() - 1;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low bits are all that is needed"
        )]
        let mut place = self.hasher.hash_one(word) as usize & mask;
        loop {
            let entry = &self.entries[place];
            let mut known = entry.key.load(Ordering::Acquire);
            if known == 0 {
                let claimed =
                    entry
                        .key
                        .compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
                known = claimed.err().unwrap_or(word);
            }
            if known == word {
                return &entry.full_at;
            }
            place = (place + 1) & mask;
        }
    }
}

impl<K: Key, C: Time> Limiter<K> for LockFree<C> {
    #[inline(always)]
    fn ask(&self, key: &K) -> bool {
        self.take(key, 1)
    }

    fn take(&self, key: &K, cost: u32) -> bool {
        let state = self.find(key.word());
        let now = self.clock.now();
        swap_in(state, |full_at| self.bucket.taken(full_at, now, cost))
    }
}

/// The same entries in tables behind locks. They never grow and forget nothing; the answer is yes or no, and nobody counts it, unless
/// it is to say as much as ours.
struct Locked<C, P> {
    whole: bool,
    counts: Counts,
    shards: Box<[Shard<P>]>,
    hasher: DefaultHashBuilder,
    bucket: Bucket,
    clock: C,
}

#[repr(align(128))]
struct Shard<P>(Mutex<P>);

impl<C, P: Places> Locked<C, P> {
    fn new(limit: &Limit, clock: C, whole: bool) -> Self {
        const SHARDS: usize = 64;
        let keys = limit.keys / SHARDS;
        // A shard may have some more keys than others.
        let places = keys + keys / 2 + 64;
        let shard = |_| Shard(Mutex::new(P::of(places)));
        Self {
            whole,
            counts: Counts::default(),
            shards: (0..SHARDS).map(shard).collect(),
            hasher: DefaultHashBuilder::default(),
            bucket: Bucket::new(limit),
            clock,
        }
    }
}

/// Where the states of a shard are.
trait Places: Send + 'static {
    /// So many of them.
    fn of(places: usize) -> Self;

    /// The state of a key, which is added if it is not there.
    fn state(&mut self, hash: u64, word: u64) -> &mut u64;
}

/// Keys and states in one piece of memory.
type Piece = Box<[(u64, u64)]>;

impl Places for Piece {
    fn of(places: usize) -> Self {
        vec![(0, 0); places].into()
    }

    #[inline]
    fn state(&mut self, hash: u64, word: u64) -> &mut u64 {
        // The leading bits are those that do not say which shard it is.
        let home = (u128::from(hash) * self.len() as u128) >> 64;
        let mut place = usize::try_from(home).unwrap_or(0);
        while self[place].0 != word && self[place].0 != 0 {
            place += 1;
            if place == self.len() {
                place = 0;
            }
        }
        self[place].0 = word;
        &mut self[place].1
    }
}

/// Several of them, of which another bit of the hash each says which it is.
impl Places for Vec<Piece> {
    fn of(places: usize) -> Self {
        let segments = (places / 3072 + 1).next_power_of_two();
        (0..segments)
            .map(|_| Piece::of(places / segments + 1))
            .collect()
    }

    #[inline]
    fn state(&mut self, hash: u64, word: u64) -> &mut u64 {
        let mask = self.len() - 1;
        self[(hash >> 16) as usize & mask].state(hash, word)
    }
}

impl<K: Key, C: Time, P: Places> Limiter<K> for Locked<C, P> {
    #[inline(always)]
    fn ask(&self, key: &K) -> bool {
        self.take(key, 1)
    }

    fn take(&self, key: &K, cost: u32) -> bool {
        // Nought is an empty place.
        let word = key.word().max(1);
        let hash = self.hasher.hash_one(word);
        let now = self.clock.now();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low bits are all that is needed"
        )]
        let shard = &self.shards[hash as usize & (self.shards.len() - 1)];
        let mut places = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = places.state(hash, word);
        let before = (*full_at).max(now);
        let taken = self.bucket.taken(*full_at, now, cost);
        if let Some(taken) = taken {
            *full_at = taken;
        }
        drop(places);
        if self.whole {
            let Bucket { token, depth } = self.bucket;
            // A clock that is late by a tick would have to be read again; no bucket here is that close to being refilled.
            if taken.is_none() && !refuse(depth, now, before + token - depth, before) {
                return false;
            }
            self.counts.add(usize::from(taken.is_none()));
        }
        taken.is_some()
    }
}
