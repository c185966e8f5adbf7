//! The trait of all limiters, its conveniences, and what the layers of this workspace need besides.

mod parts;

use std::sync::LazyLock;

use crate::acquire::Acquire;
use crate::clock::Clock;
use crate::demand::Demand;
use crate::denied::Denied;
use crate::grant::Shareable;
use crate::permit::Permit;
use crate::reason::Reason;
use crate::reservation::Reservation;
use crate::snapshot::Snapshot;
use crate::standing::Standing;

pub use parts::Parts;
pub(crate) use parts::{Kind, Part, Several};

/// Anything that says how much load is safe.
///
/// One trait for limits that are refilled with time and limits whose permits are returned, so that code can take a
/// `&dyn Limiter` or an `Arc<dyn Limiter>` whatever the algorithm. Three verbs:
///
/// - [`try_acquire`](Self::try_acquire): now or not at all.
/// - [`acquire`](Self::acquire): may wait in the limiter's queue.
/// - [`reserve`](Self::reserve): never waits, but says when.
///
/// A success is a [`Permit`], a refusal the error [`Denied`]. [`LimiterExt`] adds what follows from these for every
/// limiter. [`Gate`](crate::Gate) turns any [`Rule`](crate::Rule) into a limiter; the rest of this page is for
/// limiters that are not a gate.
///
/// # A limiter of your own
///
/// Two methods are required, and one of [`Source`](crate::Source) to return permits. The defaults of the others fit a limiter in
/// which nobody waits. This one counts connections:
///
/// ```
/// use plimsoll::{Demand, Denied, Grant, Limiter, LimiterExt, Outcome, Permit, Reason, Snapshot, Source};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
///
/// struct Connections {
///     limit: u32,
///     used: Arc<Used>,
/// }
///
/// #[derive(Default)]
/// struct Used(AtomicU32);
///
/// impl Source for Used {
///     fn give_back(&self, grant: Grant, _outcome: Outcome) {
///         self.0.fetch_sub(grant.cost, SeqCst);
///     }
/// }
///
/// impl Limiter for Connections {
///     fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
///         let take = |used: u32| used.checked_add(demand.cost).filter(|sum| *sum <= self.limit);
///         match self.used.0.fetch_update(SeqCst, SeqCst, take) {
///             Ok(_) => Ok(Permit::shared(self.used.clone(), Grant::of(demand), true)),
///             Err(used) => Err(Denied::new(Reason::Exhausted).with_limit(self.limit, self.limit - used)),
///         }
///     }
///
///     fn snapshot(&self) -> Snapshot {
///         let limit = u64::from(self.limit);
///         Snapshot::of(limit, limit - u64::from(self.used.0.load(SeqCst)))
///     }
/// }
///
/// let limiter = Connections { limit: 2, used: Arc::default() };
/// let both = limiter.try_acquire(2.into())?;
/// assert!(limiter.acquire_blocking(1).is_err());
/// drop(both);
/// assert_eq!(limiter.standing().remaining, Some(2));
/// # Ok::<(), Denied>(())
/// ```
pub trait Limiter: Send + Sync {
    /// Takes now, or is refused.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why, and when to try again.
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied>;

    /// What operators look at: the limit, what is in use, what waits, totals.
    fn snapshot(&self) -> Snapshot;

    /// Takes, waiting in the queue of the limiter if it has one.
    ///
    /// Nothing happens before the first poll. Dropping the future leaves the queue at once; it never
    /// loses a permit. The default awaits [`acquire_owned`](Self::acquire_owned).
    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(async move {
            let permit = self.acquire_owned(demand).await?;
            Ok(permit)
        })
    }

    /// [`acquire`](Self::acquire), independent of the borrow of the limiter: for futures and services that are kept.
    ///
    /// A limiter in which callers wait provides it. The default asks [`try_acquire`](Self::try_acquire) at once.
    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Acquire::ready(self.try_acquire(demand).map(Permit::into_owned))
    }

    /// Takes now what may be used later, and says when. Dropping the reservation cancels it.
    ///
    /// The default reserves what [`try_acquire`](Self::try_acquire) grants.
    ///
    /// # Errors
    ///
    /// If it is refused, or would have to wait longer than the demand is willing to.
    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        self.try_acquire(demand).map(Reservation::ready)
    }

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing and counts nothing.
    ///
    /// The default compares the cost with what the [snapshot](Self::snapshot) says is available.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        let seen = self.snapshot();
        let cost = u64::from(demand.cost);
        if cost.max(1) <= seen.available {
            return Ok(());
        }
        let reason = if cost > seen.limit {
            Reason::TooLarge
        } else {
            Reason::Exhausted
        };
        Err(refusal(reason, &seen, self.name()))
    }

    /// What callers are told: the limit, what remains of it, and when there is more. What remains is left out where a
    /// store would have to be asked.
    fn standing(&self) -> Standing {
        let seen = self.snapshot();
        Standing::new(seen.limit, seen.available)
    }

    /// Refuses all waiters and every demand from now on. Permits that are out may still be dropped.
    ///
    /// The default does nothing, for limiters that are never closed.
    fn close(&self) {}

    /// The name of the limiter, which its refusals carry.
    fn name(&self) -> Option<&str> {
        None
    }

    /// The clock of the limiter: [`Clock::system`] unless it has its own.
    fn clock(&self) -> &Clock {
        static SYSTEM: LazyLock<Clock> = LazyLock::new(Clock::system);
        &SYSTEM
    }

    /// What the layers of this workspace use besides. Not part of the interface.
    #[doc(hidden)]
    fn internals(&self) -> Option<&dyn Internals> {
        None
    }
}

/// What every [`Limiter`] can do besides its own methods.
///
/// ```
/// use plimsoll::{Concurrency, Gate, Limiter, LimiterExt};
///
/// let gate = Gate::new(Concurrency::new(1));
/// let limiter: &dyn Limiter = &gate;
/// let permit = limiter.acquire_blocking(1)?;
/// assert!(limiter.check_saturation().is_err());
/// # Ok::<(), plimsoll::Denied>(())
/// ```
pub trait LimiterExt: Limiter {
    /// Takes, blocking the thread while it waits. For threads outside of async runtimes; bound the wait
    /// with [`Demand::within`].
    ///
    /// # Errors
    ///
    /// [`Denied`] says why.
    fn acquire_blocking(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        crate::blocking::wait(self.acquire(demand.into()))
    }

    /// Whether there is room for anything new: for callers who do not start what will be refused anyway. Takes nothing
    /// and counts nothing.
    ///
    /// A limit that is refilled with time is saturated when nothing is available and nothing more may wait; one whose
    /// permits are returned, when what is in use and what waits reach the limit and the bound of the queue together.
    ///
    /// # Errors
    ///
    /// [`Saturated`](Reason::Saturated), with the name of the limiter.
    #[inline]
    fn check_saturation(&self) -> Result<(), Denied> {
        match self.internals() {
            Some(inner) => inner.check_saturation(),
            None => saturation(&self.snapshot(), self.name()),
        }
    }

    /// Takes after the fact, as much as can be taken. See [`Gate::charge`](crate::Gate::charge). A limiter that cannot
    /// does nothing.
    fn charge(&self, cost: u32) {
        if let Some(inner) = self.internals() {
            inner.charge(cost);
        }
    }

    /// Corrects a permit of this limiter whose work turned out to cost `cost`, more or less than was taken for it: as
    /// if that had been taken when the permit was granted.
    ///
    /// A limiter that does not know what came since then charges the difference now, or undoes it.
    fn settle(&self, permit: &mut Permit<'_>, cost: u32) {
        match self.internals() {
            Some(inner) => inner.settle(permit, cost),
            None => settle(permit, cost, Permit::undo, |_| ()),
        }
    }

    /// [`try_acquire`](Limiter::try_acquire) by a caller who will wait if it is refused, so that a refusal need not be
    /// counted.
    #[doc(hidden)]
    #[inline]
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.internals() {
            Some(inner) => inner.attempt(demand),
            None => self.try_acquire(demand),
        }
    }

    /// Takes at once if that is quickly done, independent of the borrow of the limiter. `None` decides nothing:
    /// [`acquire_owned`](Limiter::acquire_owned) does. A permit that returns nothing need not know its limiter:
    /// [`undo`](Self::undo) takes it back.
    #[doc(hidden)]
    #[inline(always)]
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        match self.internals() {
            Some(inner) => inner.attempt_owned(demand),
            None => self.try_acquire(demand).ok().map(Permit::into_owned),
        }
    }

    /// As if `permit`, which this limiter granted, had never been granted. See [`Permit::undo`].
    #[doc(hidden)]
    fn undo(&self, permit: Permit<'_>) {
        match self.internals() {
            Some(inner) => inner.undo(permit),
            None => permit.undo(),
        }
    }

    /// Whether a store has to be asked, so that [`acquire`](Limiter::acquire) is pending at first though nobody
    /// waits. Such a limiter is asked last, and what others have granted is held meanwhile. So is one of which it is
    /// not known where its permits go back to.
    #[doc(hidden)]
    fn is_remote(&self) -> bool {
        self.internals()
            .is_none_or(|inner| inner.is_remote() || inner.source().is_none())
    }

    /// Where the permits of this limiter go back to, if all of them go back to one place.
    #[doc(hidden)]
    fn source(&self) -> Option<&dyn Shareable> {
        self.internals().and_then(|inner| inner.source())
    }

    /// What it consists of, for those who ask several limiters at once.
    #[doc(hidden)]
    fn parts(&self) -> Parts<'_> {
        self.internals()
            .map_or_else(Parts::default, |inner| inner.parts())
    }
}

impl<L: Limiter + ?Sized> LimiterExt for L {}

/// How the limiters of this workspace do what [`LimiterExt`] does, where they do it better than its defaults.
#[doc(hidden)]
pub trait Internals: Limiter {
    /// See [`LimiterExt::source`].
    fn source(&self) -> Option<&dyn Shareable>;

    /// See [`LimiterExt::attempt`].
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.try_acquire(demand)
    }

    /// See [`LimiterExt::attempt_owned`].
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        Internals::attempt(self, demand)
            .ok()
            .map(Permit::into_owned)
    }

    /// See [`LimiterExt::undo`].
    fn undo(&self, permit: Permit<'_>) {
        permit.undo();
    }

    /// See [`LimiterExt::charge`].
    fn charge(&self, cost: u32) {
        let _ = cost;
    }

    /// See [`LimiterExt::settle`].
    fn settle(&self, permit: &mut Permit<'_>, cost: u32) {
        settle(
            permit,
            cost,
            |rest| Internals::undo(self, rest),
            |more| Internals::charge(self, more),
        );
    }

    /// See [`LimiterExt::check_saturation`].
    fn check_saturation(&self) -> Result<(), Denied> {
        saturation(&self.snapshot(), self.name())
    }

    /// See [`LimiterExt::is_remote`].
    fn is_remote(&self) -> bool {
        false
    }

    /// See [`LimiterExt::parts`].
    fn parts(&self) -> Parts<'_> {
        Parts::default()
    }
}

/// Corrects a permit by undoing what was too much, or charging what was too little.
pub(crate) fn settle<'a>(
    permit: &mut Permit<'a>,
    cost: u32,
    undo: impl FnOnce(Permit<'a>),
    charge: impl FnOnce(u32),
) {
    if let Some(rest) = permit.split(permit.cost().saturating_sub(cost)) {
        undo(rest);
    }
    if !permit.gives_back()
        && let Some((before, _)) = permit.settle(cost)
    {
        charge(cost - before.cost);
    }
}

fn saturation(seen: &Snapshot, name: Option<&str>) -> Result<(), Denied> {
    if seen.available > 0 || seen.queued < seen.queue_bound {
        return Ok(());
    }
    Err(refusal(Reason::Saturated, seen, name))
}

fn refusal(reason: Reason, seen: &Snapshot, name: Option<&str>) -> Denied {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let denied = Denied::new(reason).with_limit(number(seen.limit), number(seen.available));
    match name {
        Some(name) => denied.with_limiter(name),
        None => denied,
    }
}
