//! The trait of all limiters, its extension trait, and the internals of this workspace.

mod internals;
mod parts;

use std::sync::LazyLock;

use crate::acquire::Acquire;
use crate::clock::Clock;
use crate::demand::Demand;
use crate::denied::Denied;
use crate::grant::Shareable;
use crate::learning::Insight;
use crate::metadata::Metadata;
use crate::moment::Moment;
use crate::name::Name;
use crate::permit::Permit;
use crate::reason::Reason;
use crate::reservation::Reservation;
use crate::snapshot::Snapshot;
use crate::standing::Standing;

pub use internals::Internals;
pub(crate) use internals::settle;
use internals::{refusal, saturation};
pub(crate) use parts::{Part, PartsKind, Several, TargetOf};
pub use parts::{Parts, Target};

/// A limiter, which grants or refuses demands.
///
/// It covers limits that are refilled with time and limits whose permits are returned, so that code can take a `&dyn
/// Limiter` or an `Arc<dyn Limiter>` for any algorithm. It has three verbs:
///
/// - [`try_acquire`](Self::try_acquire): now or not at all.
/// - [`acquire`](Self::acquire): may wait in the limiter's queue.
/// - [`reserve`](Self::reserve): never waits, but returns when the permit may be used.
///
/// A success is a [`Permit`], a refusal is the error [`Denied`]. [`LimiterExt`] adds methods that every limiter has.
/// [`Gate`](crate::Gate) turns any [`Rule`](crate::Rule) into a limiter; the rest of this page is for limiters that are
/// not a gate.
///
/// # Custom limiters
///
/// Two methods are required, and one of [`Source`](crate::Source) to return permits. The defaults of the others fit a
/// limiter without a queue. This one counts connections:
///
/// ```
/// use plimsoll::{Demand, Denied, Grant, Limiter, LimiterExt, Outcome, Permit, Reason, Snapshot, Source};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
///
/// struct Connections {
///     limit: u64,
///     used: Arc<Used>,
/// }
///
/// #[derive(Default)]
/// struct Used(AtomicU64);
///
/// impl Source for Used {
///     fn give_back(&self, grant: Grant, _outcome: Outcome) {
///         self.0.fetch_sub(grant.cost, SeqCst);
///     }
/// }
///
/// impl Limiter for Connections {
///     fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
///         let take = |used: u64| used.checked_add(demand.cost).filter(|sum| *sum <= self.limit);
///         match self.used.0.fetch_update(SeqCst, SeqCst, take) {
///             Ok(_) => Ok(Permit::shared(self.used.clone(), Grant::of(demand), true)),
///             Err(used) => Err(Denied::new(Reason::Exhausted).with_limit(self.limit, self.limit - used)),
///         }
///     }
///
///     fn snapshot(&self) -> Snapshot {
///         Snapshot::of(self.limit, self.limit - self.used.0.load(SeqCst))
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
    /// Takes the permits now, or refuses the demand. It never waits.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] with the reason and, where it is known, the time after which the demand would be granted.
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied>;

    /// Returns the numbers of the limiter, for operators: the limit, the permits in use, the waiters, and totals.
    fn snapshot(&self) -> Snapshot;

    /// Takes the permits, and waits in the queue of the limiter if they are not available and it has one. Nothing
    /// happens before the first poll. The default awaits [`acquire_owned`](Self::acquire_owned).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue, and returns a permit that was granted but not yet received. No permit is
    /// lost; the place in the queue is.
    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(async move {
            let permit = self.acquire_owned(demand).await?;
            Ok(permit)
        })
    }

    /// Like [`acquire`](Self::acquire), with a future and a permit that do not borrow the limiter, and can be stored.
    ///
    /// A limiter with a queue implements it. The default asks [`try_acquire`](Self::try_acquire) at once.
    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Acquire::ready(self.try_acquire(demand).map(Permit::into_owned))
    }

    /// Takes permits for later use. The [`Reservation`] says when they may be used. It never waits. Dropping the
    /// reservation cancels it.
    ///
    /// The default reserves the permits that [`try_acquire`](Self::try_acquire) grants.
    ///
    /// # Errors
    ///
    /// Returns an error if the demand is refused, or would have to wait longer than its time-out.
    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        self.try_acquire(demand).map(Reservation::ready)
    }

    /// Checks whether [`try_acquire`](Self::try_acquire) would grant the demand now. It takes nothing and counts
    /// nothing.
    ///
    /// The default compares the cost with the available permits of the [snapshot](Self::snapshot).
    ///
    /// # Errors
    ///
    /// Returns the refusal that `try_acquire` would return.
    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        let seen = self.snapshot();
        let cost = demand.cost;
        if cost.max(1) <= seen.available {
            return Ok(());
        }
        let reason = if cost > seen.limit {
            Reason::TooLarge
        } else {
            Reason::Exhausted
        };
        Err(refusal(
            reason,
            &seen,
            Name::of(self.name(), self.metadata()),
        ))
    }

    /// Returns the numbers to report to callers: the limit, the remainder, and the time until more is available. The
    /// remainder is `None` if the limiter would have to ask a store.
    fn standing(&self) -> Standing {
        let seen = self.snapshot();
        Standing::new(seen.limit, seen.available)
    }

    /// Closes the limiter, which refuses all waiters and all later demands. Permits in use can still be returned.
    ///
    /// The default does nothing, for limiters that are never closed.
    fn close(&self) {}

    /// Returns the name of the limiter, which its refusals carry.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Returns the metadata of its refusals and permits, if it has any. See [`Metadata`].
    fn metadata(&self) -> Option<&Metadata> {
        None
    }

    /// Returns the clock of the limiter. Default: [`Clock::system`].
    fn clock(&self) -> &Clock {
        static SYSTEM: LazyLock<Clock> = LazyLock::new(Clock::system);
        &SYSTEM
    }

    /// Returns the internals for the layers of this workspace. Not part of the interface.
    #[doc(hidden)]
    fn internals(&self) -> Option<&dyn Internals> {
        None
    }
}

/// Methods that every [`Limiter`] has. They are implemented for all limiters.
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
    /// Like [`acquire`](Limiter::acquire), but blocks the thread while it waits. For threads outside of async runtimes;
    /// [`Demand::within`] bounds the wait.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] with the reason.
    fn acquire_blocking(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        crate::blocking::wait(self.acquire(demand.into()))
    }

    /// Checks whether there is room for another demand, granted or waiting, so that callers need not start work that
    /// would be refused. It takes nothing and counts nothing.
    ///
    /// A limit that is refilled with time is saturated when nothing is available and the queue is full. A limit whose
    /// permits are returned is saturated when the sum of the permits in use and the waiting costs reaches the sum of
    /// the limit and the bound of the queue.
    ///
    /// # Errors
    ///
    /// Returns a refusal with the reason [`Saturated`](Reason::Saturated) and the name of the limiter.
    #[inline]
    fn check_saturation(&self) -> Result<(), Denied> {
        match self.internals() {
            Some(inner) => inner.check_saturation(),
            None => saturation(&self.snapshot(), Name::of(self.name(), self.metadata())),
        }
    }

    /// Takes `cost` after the fact, or as much of it as can be taken. See [`Gate::charge`](crate::Gate::charge). A
    /// limiter that cannot charge does nothing.
    fn charge(&self, cost: u64) {
        if let Some(inner) = self.internals() {
            inner.charge(cost);
        }
    }

    /// Corrects the cost of a permit of this limiter after work that cost more or less than was taken, as if `cost` had
    /// been taken when the permit was granted.
    ///
    /// A limiter that does not record grants charges the difference now, or refunds it.
    ///
    /// ```
    /// use plimsoll::{Gate, LimiterExt, ManualClock, TokenBucket};
    ///
    /// let tokens = Gate::builder(TokenBucket::per_second(100)).clock(ManualClock::new().clock()).build();
    /// let mut permit = tokens.try_acquire(50)?; // an estimate
    /// tokens.settle(&mut permit, 20);
    /// assert_eq!(tokens.snapshot().available(), 80);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        match self.internals() {
            Some(inner) => inner.settle(permit, cost),
            None => settle(permit, cost, Permit::undo, |_| ()),
        }
    }

    /// Returns the insight of an [adaptive](crate::adaptive) limiter; `None` for other limiters.
    ///
    /// ```
    /// use plimsoll::adaptive::{Adaptive, Verdict};
    /// use plimsoll::{Concurrency, Gate, Limiter, LimiterExt};
    ///
    /// let limiters: [Box<dyn Limiter>; 2] = [
    ///     Box::new(Gate::new(Adaptive::new(Verdict::new()))),
    ///     Box::new(Gate::new(Concurrency::new(4))),
    /// ];
    /// let decisions = limiters.each_ref().map(|it| it.insight().map(|insight| insight.decision));
    /// assert_eq!(decisions, [Some("start"), None]);
    /// ```
    fn insight(&self) -> Option<Insight> {
        self.internals()?.insight()
    }

    /// Like [`try_acquire`](Limiter::try_acquire), for a caller that will wait if it is refused, so that a refusal need
    /// not be counted.
    #[doc(hidden)]
    #[inline]
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.internals() {
            Some(inner) => inner.attempt(demand),
            None => self.try_acquire(demand),
        }
    }

    /// Takes at once if the fast path can, without borrowing the limiter. `None` decides nothing: call
    /// [`acquire_owned`](Limiter::acquire_owned) then. A permit that returns nothing need not know its limiter;
    /// [`undo`](Self::undo) refunds it.
    #[doc(hidden)]
    #[inline(always)]
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        match self.internals() {
            Some(inner) => inner.attempt_owned(demand),
            None => self.try_acquire(demand).ok().map(Permit::into_owned),
        }
    }

    /// Takes at once if the fast path can and nothing is to be returned later; returns the moment of the grant. `None`
    /// decides nothing. See [`PerKey::spend`](crate::PerKey::spend).
    #[doc(hidden)]
    #[inline(always)]
    fn spend(&self, cost: u64) -> Option<Moment> {
        self.internals()?.spend(cost)
    }

    /// Undoes `permit`, which this limiter granted, as if it had never been granted. See [`Permit::undo`].
    #[doc(hidden)]
    fn undo(&self, permit: Permit<'_>) {
        match self.internals() {
            Some(inner) => inner.undo(permit),
            None => permit.undo(),
        }
    }

    /// Returns whether a store has to be asked, so that [`acquire`](Limiter::acquire) is pending at first although no
    /// demand waits. Such a limiter is asked last, while the grants of the others are held. So is a limiter without a
    /// known source.
    #[doc(hidden)]
    fn is_remote(&self) -> bool {
        self.internals()
            .is_none_or(|inner| inner.is_remote() || inner.source().is_none())
    }

    /// Returns the source to which all permits of this limiter return, if there is one.
    #[doc(hidden)]
    fn source(&self) -> Option<&dyn Shareable> {
        self.internals().and_then(|inner| inner.source())
    }

    /// Returns the limiter behind this one, if this is only a name for it. See [`Internals::target`].
    #[doc(hidden)]
    fn target(&self) -> Option<Result<Target, Denied>> {
        self.internals()?.target()
    }

    /// Returns the limiters that it consists of, for callers that ask several limiters at once.
    #[doc(hidden)]
    fn parts(&self) -> Parts<'_> {
        self.internals()
            .map_or_else(Parts::default, |inner| inner.parts())
    }
}

impl<L: Limiter + ?Sized> LimiterExt for L {}
