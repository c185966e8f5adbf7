use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, RwLock};

use super::key_gate::{Gates, Room};
use super::shared::{Shard, Shared};
use super::table::Table;
use super::{KeyHash, Keyed};
use crate::name::Name;
use crate::totals::Totals;
use crate::{Clock, InvalidLimit, Metadata, Moment, Queue, Rule};

/// The treatment of a new key when all places are taken by keys that cannot be evicted without losing their state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WhenFull {
    /// The new key is refused. So no caller can erase its own usage by using new keys.
    Refuse,
    /// The new key replaces the least recently used key of its shard. Each state then also stores the moment of its
    /// last use, and needs more than 8 bytes.
    EvictLeastRecent,
}

/// The settings of a [`Keyed`] limit. [`Keyed::builder`] returns one.
///
/// ```
/// use plimsoll::{Keyed, TokenBucket, WhenFull};
///
/// let per_tenant: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(10))
///     .max_keys(100_000)
///     .when_full(WhenFull::EvictLeastRecent)
///     .name("tenants")
///     .build();
/// assert!(per_tenant.try_acquire("red", 1).is_ok());
/// assert_eq!(per_tenant.len(), 1);
/// ```
#[derive(Debug)]
#[must_use]
pub struct KeyedBuilder<K, R, S = KeyHash> {
    keys: PhantomData<fn() -> K>,
    rule: R,
    hasher: S,
    clock: Clock,
    queue: Option<Queue>,
    name: Option<String>,
    metadata: Option<Metadata>,
    max_keys: usize,
    when_full: WhenFull,
    totals: bool,
    began: Option<Moment>,
}

impl<K: Hash + Eq, R: Rule + Clone> KeyedBuilder<K, R> {
    pub(super) fn new(rule: R) -> Self {
        Self {
            keys: PhantomData,
            clock: if rule.learning().is_some() {
                Clock::precise()
            } else {
                Clock::system()
            },
            rule,
            hasher: KeyHash::default(),
            queue: None,
            name: None,
            metadata: None,
            max_keys: 1_000_000,
            when_full: WhenFull::Refuse,
            totals: true,
            began: None,
        }
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> KeyedBuilder<K, R, S> {
    /// Sets the clock. Default: [`Clock::system`], and [`Clock::precise`] for an [adaptive](crate::adaptive) limit.
    ///
    /// All keys share it. With a [`ManualClock`](crate::ManualClock) tests are deterministic and need not sleep.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the queue in which [`Keyed::acquire`] waits. Each key has a queue of its own, with these bounds, while it
    /// has waiters. Default: none, and demands never wait.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed, Queue};
    ///
    /// let per_host: Keyed<String, _> = Keyed::builder(Concurrency::new(4)).queue(Queue::fifo(16)).build();
    /// # assert!(per_host.try_acquire("db1", 1).is_ok());
    /// ```
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Sets the name of the limit, which its refusals carry. It does not contain the key.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed};
    ///
    /// let per_host: Keyed<String, _> = Keyed::builder(Concurrency::new(1)).name("hosts").build();
    /// let denied = per_host.try_acquire("db1", 2).unwrap_err();
    /// assert_eq!(denied.limiter(), Some("hosts"));
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the metadata of refusals and permits: a phrase, a code, pairs. See [`Metadata`].
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the maximum number of keys with a state, and of keys with a [limit](Keyed::set_limit) of their own.
    /// Default: a million.
    ///
    /// It bounds memory: callers that choose keys, such as addresses, cannot make the table grow beyond it. Memory is
    /// allocated as keys are added, not for `max_keys` at once.
    ///
    /// # Panics
    ///
    /// Panics if `max_keys` is 0.
    #[track_caller]
    pub fn max_keys(self, max_keys: usize) -> Self {
        match self.try_max_keys(max_keys) {
            Ok(builder) => builder,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Like [`max_keys`](Self::max_keys), but returns an error instead of panicking. For a number from outside the
    /// program. Default: a million.
    ///
    /// # Errors
    ///
    /// Returns an error if `max_keys` is 0: every key would be refused.
    pub fn try_max_keys(mut self, max_keys: usize) -> Result<Self, InvalidLimit> {
        if max_keys == 0 {
            return Err(InvalidLimit::new("max_keys", max_keys, "at least 1"));
        }
        self.max_keys = max_keys;
        Ok(self)
    }

    /// Sets the treatment of a new key when all places are taken. Default: [`WhenFull::Refuse`].
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota, Reason, WhenFull};
    ///
    /// let one = Keyed::<u32, _>::builder(FixedWindow::new(Quota::per_hour(1))).max_keys(1);
    /// let refuses = one.build();
    /// refuses.try_acquire(&1, 1)?;
    /// assert_eq!(refuses.try_acquire(&2, 1).unwrap_err().reason(), Reason::KeysFull);
    ///
    /// let one = Keyed::<u32, _>::builder(FixedWindow::new(Quota::per_hour(1))).max_keys(1);
    /// let evicts = one.when_full(WhenFull::EvictLeastRecent).build();
    /// evicts.try_acquire(&1, 1)?;
    /// assert!(evicts.try_acquire(&2, 1).is_ok());
    /// assert!(evicts.try_acquire(&1, 1).is_ok(), "key 1 was evicted, and its use forgotten");
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Sets whether the limit counts grants and refusals. Default: yes.
    pub fn totals(mut self, counted: bool) -> Self {
        self.totals = counted;
        self
    }

    /// Sets the moment from which windows and refills are counted, for a limit that continues one of an earlier
    /// process. Default: the moment of [`build`](Self::build).
    #[doc(hidden)]
    pub fn began(mut self, at: Moment) -> Self {
        self.began = Some(at);
        self
    }

    /// Sets the hasher of keys. It should be seeded at random, as the default is, if callers choose the keys. The low bits of a hash
    /// choose the shard, and the upper half the place within it.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> KeyedBuilder<K, R, T> {
        KeyedBuilder {
            keys: PhantomData,
            rule: self.rule,
            hasher,
            clock: self.clock,
            queue: self.queue,
            name: self.name,
            metadata: self.metadata,
            max_keys: self.max_keys,
            when_full: self.when_full,
            totals: self.totals,
            began: self.began,
        }
    }

    /// Builds the limit. Its rule starts at this moment of its clock.
    #[must_use]
    pub fn build(mut self) -> Keyed<K, R, S> {
        let now = self.clock.precise_now();
        let began = self.began.map_or(now, |began| began.min(now));
        self.rule.begin(began);
        let rule = Arc::new(self.rule);
        let compact = self.when_full == WhenFull::Refuse;
        let shards = shards(self.max_keys, compact);
        let table = || Table::new(Arc::clone(&rule), compact, now);
        Keyed {
            shared: Arc::new(Shared {
                shards: (0..shards).map(|_| Shard(Mutex::new(table()))).collect(),
                hasher: self.hasher,
                gates: Gates {
                    clock: self.clock,
                    queue: RwLock::new(self.queue),
                    name: Name::of(self.name.as_deref(), self.metadata.as_ref()),
                    totals: Totals::new(self.totals),
                    room: Arc::new(Room::new(shards)),
                },
                max_keys: AtomicUsize::new(self.max_keys),
                when_full: self.when_full,
                heard: Mutex::new(None),
                changing: Mutex::new(()),
                exact: AtomicBool::new(rule.refunds_exactly()),
                len: AtomicUsize::new(0),
                own: AtomicUsize::new(0),
                evictable_from: AtomicU64::new(u64::MAX),
                next_swept: AtomicUsize::new(0),
                next_sweep: AtomicU64::new(now.as_nanos()),
            }),
        }
    }
}

/// The number of shards: so large that threads rarely contend for one, and so small that their tables are large,
/// because memory in large pieces is returned to the system. The search for the least recently used key visits a whole
/// shard, which should then be small.
fn shards(max_keys: usize, compact: bool) -> usize {
    let (small, large) = ((max_keys / 512).next_power_of_two(), max_keys / 32_768);
    if !compact {
        return small.clamp(1, 1024);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    large
        .max(16 * threads)
        .next_power_of_two()
        .clamp(1, small.min(1024))
}
