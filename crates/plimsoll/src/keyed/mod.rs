//! A limit for each key.

mod acquire;
mod builder;
mod changes;
mod events;
mod hash;
mod keeping;
mod key_gate;
mod limits;
mod per_key;
mod report;
mod reserve;
mod segment;
mod shared;
mod short;
mod slots;
mod starts;
mod step;
mod sweep;
mod table;
mod wide;
mod word;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::shared::{Shared, is_timeless};
use self::short::{Asked, Open};
use self::step::{Decided, Done, How, Step};
use crate::name::Name;
use crate::{Demand, Denied, Gate, Metadata, Permit, Rule};

pub use acquire::AcquireKey;
pub use builder::{KeyedBuilder, WhenFull};
pub use hash::{KeyHash, KeyHasher};

/// One limit for each key: a tenant, an address, a route.
///
/// All keys follow one [`Rule`], except those with [a limit of their own](Self::set_limit). A key costs the memory of
/// its state: 8 bytes in addition to the key itself for a [`TokenBucket`](crate::TokenBucket) or a
/// [`FixedWindow`](crate::FixedWindow). Only a key with waiters has a whole [`Gate`].
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
/// At most [`max_keys`](KeyedBuilder::max_keys), by default a million. A key with a state that equals that of a new key
/// is evicted within seconds, a few at a time as part of other calls, and at once when its place is needed. This needs
/// no thread, and evicting such a key changes no decision. A state that never again equals a new one stays, such as
/// that of a bucket that starts with less than its burst and has filled up since. When all places are taken by states
/// that differ from a new one, a new key is refused ([`Reason::KeysFull`](crate::Reason::KeysFull)) or replaces the
/// least recently used key, as [`when_full`](KeyedBuilder::when_full) sets.
///
/// The memory of evicted keys is freed. With glibc, a block that is allocated later and above it keeps it in the process
/// for later use, unless that was started with `GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4096`.
///
/// # Keys of text
///
/// A `Keyed<String, _>` allocates for each key that it stores. A key type that stores short texts inline, and that
/// implements `Borrow<str>` and `From<String>`, such as those of the crates `compact_str` and `smol_str`, needs no
/// allocation for them, and is used in the same way.
///
/// # Contention
///
/// Keys are distributed over shards by a hash with a random seed, so that callers cannot choose keys of one shard. A
/// decision holds the lock of its shard while it reads and updates one state.
pub struct Keyed<K, R: Rule, S = KeyHash> {
    shared: Arc<Shared<K, R, S>>,
}

impl<K: Hash + Eq, R: Rule + Clone> Keyed<K, R> {
    /// Creates a limit of `rule` for each key, for at most a million keys, on [`Clock::system`](crate::Clock::system).
    pub fn new(rule: R) -> Self {
        Self::builder(rule).build()
    }

    /// Returns a builder.
    pub fn builder(rule: R) -> KeyedBuilder<K, R> {
        KeyedBuilder::new(rule)
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Takes permits of `key` now, or refuses the demand. See [`Gate::try_acquire`].
    ///
    /// The key is borrowed, as in a map: a `Keyed<String, _>` takes a `&str`, and makes a `String` of it only if the key
    /// is new.
    ///
    /// ```
    /// use plimsoll::{Keyed, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let per_tenant: Keyed<String, _> =
    ///     Keyed::builder(TokenBucket::per_second(10)).clock(time.clock()).build();
    /// assert!(per_tenant.try_acquire("red", 10).is_ok());
    /// let denied = per_tenant.try_acquire("red", 5).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] with the reason and the time after which the demand would be granted.
    // Always inlined: the fewer instructions a decision executes, the more of the next one the processor can begin
    // while it waits for memory.
    #[inline(always)]
    pub fn try_acquire<Q>(&self, key: &Q, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let demand = demand.into();
        let shared = &*self.shared;
        if is_timeless::<R>() {
            return self.try_acquire_timeless(key, demand);
        }
        let now = shared.gates.clock.now();
        match shared.short(key, now, demand.cost) {
            Ok(at) => {
                shared.gates.totals.granted();
                Ok(Permit::spent(demand.granted(at)))
            }
            // Inlined as well: a refusal passed on in memory would be read before the write has completed, and
            // processors stall on that.
            Err(left) => match shared.left(now, left) {
                Open::Refused(denied) => {
                    shared.gates.totals.denied();
                    Err(denied)
                }
                Open::At(asked) => self.try_acquire_long(key, demand, asked),
            },
        }
    }

    /// Decides a demand. A refusal that may be due to a late clock alone is decided again, by the precise time.
    fn decide_open<Q>(
        &self,
        key: &Q,
        demand: Demand,
        asked: Asked,
        how: How,
    ) -> Result<Decided<R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        let clock = &shared.gates.clock;
        if R::REMEMBERS_REFUSALS {
            // It must not be refused twice.
            let asked = Asked::at(clock.precise_now());
            return shared.decide(key, demand, asked, how);
        }
        let decided = shared.decide(key, demand, asked, how);
        if let Err(denied) = &decided
            && asked.late
            && let Some(precise) = clock.refine(asked.now, denied.ready_at())
        {
            return shared.decide(key, demand, Asked::at(precise), how);
        }
        decided
    }

    #[inline(never)]
    fn try_acquire_long<Q>(
        &self,
        key: &Q,
        demand: Demand,
        asked: Asked,
    ) -> Result<Permit<'_>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        match self.decide_open(key, demand, asked, How::Try) {
            Ok(Decided::Granted(taken)) => {
                self.shared.gates.totals.granted();
                Ok(Permit::spent(taken.grant(demand)).in_era(taken.era))
            }
            Ok(Decided::Ask(gate)) => gate.try_acquire_owned(demand),
            Err(denied) => {
                self.shared.gates.totals.denied();
                Err(denied)
            }
        }
    }

    /// Takes permits of `key`, and waits in the queue of the key if they are not available. See [`Gate::acquire`].
    ///
    /// Each key has a queue of its own: waiters of one key do not delay those of another. Without a
    /// [queue](KeyedBuilder::queue), a demand that does not fit is refused at once. Dropping the future leaves the
    /// queue, and loses no permit.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed, Queue};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let per_host: Keyed<String, _> =
    ///     Keyed::builder(Concurrency::new(1)).queue(Queue::fifo(100)).build();
    /// let first = per_host.acquire("db1", 1).await?;
    /// let other = per_host.acquire("db2", 1).await?;
    /// drop(first);
    /// let second = per_host.acquire("db1", 1).await?;
    /// # drop((other, second));
    /// # Ok::<(), plimsoll::Denied>(())
    /// # }).unwrap();
    /// ```
    pub fn acquire<'a, Q>(
        &'a self,
        key: &'a Q,
        demand: impl Into<Demand>,
    ) -> AcquireKey<'a, K, Q, R, S>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        AcquireKey::new(self, key, demand.into())
    }

    /// Like [`acquire`](Self::acquire), but blocks the thread while it waits. See [`Gate::acquire_blocking`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] with the reason.
    pub fn acquire_blocking<Q>(
        &self,
        key: &Q,
        demand: impl Into<Demand>,
    ) -> Result<Permit<'static>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        crate::blocking::wait(self.acquire(key, demand))
    }

    /// Checks whether [`try_acquire`](Self::try_acquire) would grant the demand now. It takes nothing, counts nothing
    /// and stores no key.
    ///
    /// ```
    /// use plimsoll::{Keyed, TokenBucket};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(2));
    /// assert!(per_tenant.estimate("red", 2).is_ok());
    /// assert!(per_tenant.estimate("red", 3).is_err(), "more than the burst");
    /// assert!(per_tenant.is_empty());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the refusal that `try_acquire` would return.
    pub fn estimate<Q>(&self, key: &Q, demand: impl Into<Demand>) -> Result<(), Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.estimate_after(key, 0, demand.into())
    }

    /// Like [`estimate`](Self::estimate), as if `charged` had been [charged](Self::charge) before.
    #[doc(hidden)]
    pub fn estimate_after<Q>(&self, key: &Q, charged: u64, demand: Demand) -> Result<(), Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        let step = shared.view(key, now, |rule, state, seen| {
            let answer = if seen.closed {
                Err(shared.closed(rule, state, seen.now))
            } else {
                let mut state = state.clone();
                rule.charge(&mut state, seen.now, charged);
                shared.take(rule, &mut state, seen.now, demand, true)
            };
            (answer, seen, shared.keys_full(rule))
        });
        match step {
            Step::Done((answer, seen, keys_full)) => {
                let fits = seen.known || seen.closed || shared.would_have_room(seen.now);
                if fits { answer } else { Err(keys_full) }
            }
            Step::Gate(gate) => gate.estimate(demand.cost(demand.cost.saturating_add(charged))),
        }
    }

    /// Takes the permits of `key` that are available, at most `most` of them. [`Permit::cost`] is the number taken,
    /// perhaps 0.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Keyed, Quota};
    ///
    /// let per_tenant: Keyed<u32, _> = Keyed::new(FixedWindow::new(Quota::per_hour(5)));
    /// assert_eq!(per_tenant.take_up_to(&7, 3).cost(), 3);
    /// assert_eq!(per_tenant.take_up_to(&7, 3).cost(), 2);
    /// assert_eq!(per_tenant.take_up_to(&7, 3).cost(), 0);
    /// ```
    pub fn take_up_to<Q>(&self, key: &Q, most: u64) -> Permit<'_>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        let step = shared.step(key, now, |turn| {
            let cost = turn.rule.available(turn.state, turn.now).min(most);
            let takes = !turn.closed && cost > 0;
            let taken = takes && turn.rule.take(turn.state, turn.now, cost).is_ok();
            Done::Answer((if taken { cost } else { 0 }, turn.stamp()))
        });
        match step {
            Ok(Step::Done((cost, taken))) => {
                if cost > 0 {
                    shared.gates.totals.granted();
                }
                Permit::spent(taken.grant(Demand::of(cost))).in_era(taken.era)
            }
            Ok(Step::Gate(gate)) => gate.take_up_to_owned(most),
            Err(_) => Permit::spent(Demand::of(0).granted(now)),
        }
    }

    /// Returns the limiter of one key, to wait for, to reserve from, or to add to an [`All`](crate::All). The key stays
    /// in the table while this limiter exists, and up to 100 ms longer.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Keyed};
    ///
    /// let per_user: Keyed<String, _> = Keyed::new(Concurrency::new(1));
    /// let ann = per_user.gate("ann")?;
    /// let permit = ann.try_acquire(1)?;
    /// assert!(per_user.try_acquire("ann", 1).is_err(), "the same limit");
    /// # drop(permit);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for another key.
    pub fn gate<Q>(&self, key: &Q) -> Result<Gate<R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        let now = shared.gates.clock.precise_now();
        Ok(Gate::clone(&*shared.lease(key, now)?))
    }

    /// Returns the number of known keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len.load(Ordering::Relaxed)
    }

    /// Returns whether no key is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, R: Rule, S> Keyed<K, R, S> {
    /// Returns the metadata of its refusals. Permits of rates do not know their limit, and have none.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.shared.gates.name.and_then(Name::metadata)
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
            .field("name", &self.shared.gates.name.and_then(Name::as_str))
            .field("keys", &self.shared.len)
            .field("max_keys", &self.shared.max_keys)
            .finish_non_exhaustive()
    }
}
