//! The limiter in memory: a rule, a clock, and a queue.

mod asking;
mod builder;
mod changing;
mod events;
mod forecast;
mod handed;
mod handing;
mod joint;
mod keeping;
mod learning;
mod limiter;
mod locked;
mod looking;
#[cfg(all(test, loom))]
pub(crate) mod model;
mod releasing;
mod reserving;
mod resets;
mod serving;
mod waiting;
mod weak;
mod word;

use std::fmt;
use std::sync::Arc;

use self::locked::Inside;
use self::resets::Resets;
use self::word::{ByWord, Core, Open};
use crate::acquire::{Acquire, Owner};
use crate::name::Name;
use crate::reservation::Reservation;
use crate::stamp::Stamp;
use crate::sync::Ordering;
use crate::totals::Totals;
use crate::{
    Clock, Demand, Denied, Grant, Metadata, Moment, Permit, Queue, Rule, Shareable, Source,
};

pub(crate) use asking::take;
pub use builder::GateBuilder;
pub(crate) use locked::Counted;
pub(crate) use weak::WeakGate;

/// A limiter in memory: a [`Rule`] with a clock and, optionally, a [`Queue`].
///
/// A clone is a handle to the same limiter. All methods take `&self`. While no demand waits, a decision is one
/// compare-and-exchange: it allocates nothing and takes no lock. A rule whose state does not fit a word, such as
/// [`SlidingWindow`](crate::SlidingWindow), takes a lock.
///
/// # Which method to call
///
/// - [`try_acquire`](Self::try_acquire) answers at once: for servers that refuse requests above the limit.
/// - [`acquire`](Self::acquire) waits in the queue: for clients that keep to the limit of another service.
/// - [`reserve`](Self::reserve) takes permits for later use, and says when they are ready: for schedulers.
/// - [`take_up_to`](Self::take_up_to) takes the permits that are available: for work that can be split.
/// - [`charge`](Self::charge) takes after the fact: for costs that are known when the work is done.
///
/// Code that accepts any limiter uses the trait [`Limiter`](crate::Limiter), which a gate implements.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Queue, TokenBucket};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // 5 a second, and a queue of 25: thirty requests at once become five a second for six seconds.
/// let time = ManualClock::new();
/// let gate = Gate::builder(TokenBucket::per_second(5))
///     .queue(Queue::fifo(25))
///     .clock(time.clock())
///     .build();
/// let crowd: Vec<_> = (0..30)
///     .map(|_| {
///         let gate = gate.clone();
///         tokio::spawn(async move { gate.acquire(1).await.map(|permit| permit.granted_at()) })
///     })
///     .collect();
/// tokio::task::yield_now().await;
/// time.advance(Duration::from_secs(5));
/// for task in crowd {
///     task.await.unwrap()?;
/// }
/// # Ok::<(), plimsoll::Denied>(()) }).unwrap();
/// ```
pub struct Gate<R: Rule> {
    core: Arc<Core<R>>,
}

impl<R: Rule> Gate<R> {
    /// Creates a limiter without a queue, on the system clock.
    ///
    /// It is [`builder`](Self::builder) without settings. A rule has checked its numbers, so building a gate cannot
    /// fail.
    pub fn new(rule: R) -> Self {
        Self::builder(rule).build()
    }

    /// Returns a builder.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Queue};
    ///
    /// let gate = Gate::builder(Concurrency::new(10)).queue(Queue::fifo(50)).name("pool").build();
    /// assert_eq!(gate.snapshot().queue_bound(), 50);
    /// ```
    pub fn builder(rule: R) -> GateBuilder<R> {
        GateBuilder::new(rule)
    }

    /// Whether it is closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.core.closed.load(Ordering::Relaxed)
    }

    /// The limit of a rule that is resized, not replaced.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.core.rule.limit()
    }

    /// The moment on its clock.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.core.clock.now()
    }

    /// The precise moment on its clock.
    pub(crate) fn precise_now(&self) -> Moment {
        self.core.clock.precise_now()
    }

    /// A permit for what was taken by other means.
    #[inline]
    pub(crate) fn permit(&self, grant: Grant) -> Permit<'_> {
        Permit::new(&*self.core, grant, R::RETURNS_PERMITS)
    }

    /// The source to which its permits return.
    pub(crate) fn source(&self) -> &dyn Shareable {
        &*self.core
    }

    /// The same, owned.
    pub(crate) fn to_source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.core) as Arc<dyn Source>
    }

    fn shared(&self) -> Owner<'static> {
        Owner::Shared(Arc::clone(&self.core) as _)
    }

    /// Creates a gate that continues from a state, for a key that needs a gate. `began` is the start of that state.
    pub(crate) fn resumed(
        rule: R,
        state: R::State,
        (now, began): (Moment, Option<Stamp>),
        clock: Clock,
        queue: Option<Queue>,
        name: Option<Name>,
        totals: Totals,
    ) -> Self {
        let mut inside = Inside::new(queue);
        if let Some(began) = began {
            inside.resets = Resets::since(began, clock.late());
        }
        Self::from_core(Core::resumed(rule, state, now, clock, totals, name, inside))
    }

    /// Whether this is the only handle to the gate.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.core) == 1
    }

    fn from_core(core: Arc<Core<R>>) -> Self {
        Self { core }
    }

    /// Takes the permits now, or refuses the demand. It never waits.
    ///
    /// While other demands wait in a fifo queue, a demand of their class or below is refused even if it would fit.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    ///
    /// let gate = Gate::new(TokenBucket::per_second(2));
    /// assert!(gate.try_acquire(2).is_ok());
    /// assert!(gate.try_acquire(1).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] with the reason and the time after which the demand would be granted.
    #[inline(always)]
    pub fn try_acquire(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        let demand = demand.into();
        let core = &*self.core;
        let (mut now, timed) = core.start();
        let mut open = Open::Parked { timed };
        if demand.cost > 0 {
            match core.take_by_word(now, demand.cost) {
                ByWord::Granted => {
                    core.totals.granted();
                    let grant = Grant {
                        timed,
                        ..demand.granted(now)
                    };
                    return Ok(Permit::new(core, grant, R::RETURNS_PERMITS));
                }
                ByWord::Refused(refusal, word) => match core.refine(now, refusal) {
                    Some(precise) if precise >= refusal.ready_at => {
                        (now, open) = (precise, Open::Again);
                    }
                    precise => {
                        let now = precise.unwrap_or(now);
                        return Err(core.denied_by_word(refusal, word, now, demand.cost));
                    }
                },
                ByWord::Parked => {}
            }
        }
        let taken = core.take_slow(open, now, demand.cost, demand.priority)?;
        Ok(core.permit_of(taken, demand))
    }

    /// Takes the permits, and waits in the queue if they are not available and the gate has one.
    ///
    /// Nothing happens before the first poll. The [`Demand`] sets how long the future waits at most.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue, and returns a permit that was granted but not yet received.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Demand, Gate, Queue};
    /// use std::time::Duration;
    ///
    /// # async fn doc() -> Result<(), plimsoll::Denied> {
    /// let pool = Gate::builder(Concurrency::new(10)).queue(Queue::fifo(50)).build();
    /// let permit = pool.acquire(Demand::ONE.within(Duration::from_millis(100))).await?;
    /// # Ok(()) }
    /// ```
    pub fn acquire(&self, demand: impl Into<Demand>) -> Acquire<'_> {
        Acquire::of(Owner::Borrowed(&*self.core), demand.into())
    }

    /// Like [`acquire`](Self::acquire), with a future and a permit that do not borrow the gate: for tasks that are
    /// spawned, and for permits that are stored in a struct.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Permit};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let gate = Gate::new(Concurrency::new(1));
    /// let waiting = gate.acquire_owned(1);
    /// drop(gate);
    /// let permit: Permit<'static> = tokio::spawn(waiting).await.unwrap()?;
    /// # Ok::<(), plimsoll::Denied>(()) }).unwrap();
    /// ```
    pub fn acquire_owned(&self, demand: impl Into<Demand>) -> Acquire<'static> {
        Acquire::of(self.shared(), demand.into())
    }

    /// Like [`acquire`](Self::acquire), but blocks the thread while it waits. For threads outside of async runtimes.
    ///
    /// On a thread of a runtime it blocks that worker, and perhaps tasks that would return the permits.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Queue};
    /// use std::thread;
    ///
    /// let gate = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(1)).build();
    /// let first = gate.acquire_blocking(1)?;
    /// let other = gate.clone();
    /// let waiting = thread::spawn(move || other.acquire_blocking(1).map(|permit| permit.cost()));
    /// drop(first);
    /// assert_eq!(waiting.join().unwrap()?, 1);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] with the reason.
    pub fn acquire_blocking(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        crate::blocking::wait(self.acquire(demand))
    }

    /// Takes permits for later use, without waiting. The [`Reservation`] says when they may be used.
    ///
    /// A [`TokenBucket`](crate::TokenBucket) goes into debt. Otherwise the reservation takes a place in the queue: on a
    /// window even if that is full or missing, on [`Concurrency`](crate::Concurrency) as any demand does.
    ///
    /// ```
    /// use plimsoll::{Demand, Gate, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(2)).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(2)?;
    /// let reserved = gate.reserve(2)?;
    /// assert_eq!(reserved.wait(), Some(Duration::from_secs(1)));
    /// // Refused: the wait would be longer than the time-out.
    /// assert!(gate.reserve(Demand::ONE.within(Duration::from_secs(1))).is_err());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the demand is refused, or its wait would exceed its time-out. Nothing is then taken.
    pub fn reserve(&self, demand: impl Into<Demand>) -> Result<Reservation<'_>, Denied> {
        let owner = Owner::Borrowed(&*self.core);
        self.core.reserve(owner, demand.into())
    }

    /// Like [`reserve`](Self::reserve), with a reservation that does not borrow the gate, and can be stored.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Reservation, TokenBucket};
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(TokenBucket::per_second(1)).clock(time.clock()).build();
    /// let stored: Reservation<'static> = gate.reserve_owned(1)?;
    /// drop(gate);
    /// assert!(stored.wait_blocking().is_ok());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reserve`](Self::reserve).
    pub fn reserve_owned(&self, demand: impl Into<Demand>) -> Result<Reservation<'static>, Denied> {
        self.core.reserve(self.shared(), demand.into())
    }

    /// Takes the permits that are available, at most `most` of them. [`Permit::cost`] is the number taken, perhaps 0.
    ///
    /// While demands wait in a fifo queue, it takes none.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    ///
    /// let gate = Gate::new(TokenBucket::per_second(5));
    /// assert_eq!(gate.take_up_to(8).cost(), 5);
    /// assert_eq!(gate.take_up_to(8).cost(), 0);
    /// ```
    pub fn take_up_to(&self, most: u64) -> Permit<'_> {
        let core = &*self.core;
        let (cost, taken) = core.enter(core.clock.precise_now(), |turn| {
            let mut cost = turn.rule.available(turn.state, turn.now).min(most);
            if cost > 0 && turn.take(Demand::of(cost)).is_err() {
                cost = 0;
            }
            (cost, turn.stamp())
        });
        self.permit(taken.grant(Demand::of(cost))).in_era(taken.era)
    }

    /// Takes `cost` for permits that a replaced limiter granted: ahead of waiters, and also above the limit.
    #[doc(hidden)]
    pub fn occupy(&self, cost: u64) -> Permit<'_> {
        let core = &*self.core;
        let taken = core.enter(core.clock.precise_now(), |turn| {
            turn.rule.occupy(turn.state, turn.now, cost);
            turn.inside.forecast.forget();
            turn.inside.counts.granted += 1;
            turn.stamp()
        });
        self.permit(taken.grant(Demand::of(cost))).in_era(taken.era)
    }

    /// Returns the name of the gate, which its refusals carry.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.core.name.and_then(Name::as_str)
    }

    /// Returns the metadata of its refusals and permits.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.core.name.and_then(Name::metadata)
    }
}

impl<R: Rule> Clone for Gate<R> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
        }
    }
}

impl<R: Rule> fmt::Debug for Gate<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("name", &self.core.name)
            .field("rule", &self.core.rule)
            .finish_non_exhaustive()
    }
}
