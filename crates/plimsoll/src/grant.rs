//! The data of a permit, and the source to which it returns.

use std::sync::Arc;
use std::time::Duration;

use crate::demand::{Demand, Priority};
use crate::lease::LeaseState;
use crate::metadata::Metadata;
use crate::moment::Moment;
use crate::standing::Standing;

/// The result of the work done under a permit, from which [adaptive](crate::adaptive) limits learn.
///
/// [`Permit::finish`](crate::Permit::finish) takes one.
///
/// ```
/// use plimsoll::adaptive::{Adaptive, Aimd};
/// use plimsoll::{Gate, Outcome};
///
/// let gate = Gate::new(Adaptive::new(Aimd::builder().min(1).initial(10).build()?));
/// gate.try_acquire(1)?.finish(Outcome::Overload);
/// assert_eq!(gate.snapshot().limit(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Outcome {
    /// The work succeeded.
    Success,
    /// The work failed because of overload: a timeout, or a refusal by the server behind.
    Overload,
    /// The work says nothing about the load. A permit that is dropped without [`finish`](crate::Permit::finish) has
    /// this outcome.
    #[default]
    Ignore,
}

impl Outcome {
    /// Returns the name of the outcome in logs, spans and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Overload => "overload",
            Self::Ignore => "ignore",
        }
    }
}

/// The data of a [`Permit`](crate::Permit), which its [`Source`] receives when the permit is returned.
///
/// ```
/// use plimsoll::{Demand, Grant, Moment};
///
/// let grant = Grant::of(Demand::of(3)).taken(Moment::from_nanos(7));
/// assert_eq!((grant.cost, grant.taken.as_nanos(), grant.timed), (3, 7, false));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// The number of permits that were granted.
    pub cost: u64,
    /// The moment of the grant; the origin if the limiter read no clock and `timed` is false.
    pub taken: Moment,
    /// The class of the demand.
    pub priority: Priority,
    /// Whether an adaptive limit learns from this grant. At high rates only some grants are timed.
    pub timed: bool,
}

impl Grant {
    /// Returns the grant of `demand`, without a timestamp.
    #[must_use]
    pub const fn of(demand: Demand) -> Self {
        Self {
            cost: demand.cost,
            taken: Moment::ORIGIN,
            priority: demand.priority,
            timed: false,
        }
    }

    /// Sets the moment of the grant, [`taken`](Self#structfield.taken).
    #[must_use]
    pub const fn taken(mut self, taken: Moment) -> Self {
        self.taken = taken;
        self
    }

    /// Sets [`timed`](Self#structfield.timed).
    #[must_use]
    pub const fn timed(mut self, timed: bool) -> Self {
        self.timed = timed;
        self
    }

    /// Whether it is known when it was granted. A limit that does not depend on time grants without reading a clock.
    #[inline]
    pub(crate) fn is_dated(&self) -> bool {
        self.timed || self.taken != Moment::ORIGIN
    }

    /// The time since the grant, zero if that is not known.
    pub(crate) fn age(&self, now: Moment) -> Duration {
        if self.is_dated() {
            now.since(self.taken)
        } else {
            Duration::ZERO
        }
    }
}

impl Demand {
    /// The grant of this demand at `taken`.
    #[inline]
    pub(crate) fn granted(self, taken: Moment) -> Grant {
        Grant {
            taken,
            timed: true,
            ..Grant::of(self)
        }
    }
}

/// The part of a limiter that receives returned permits.
///
/// Only authors of limiters need it; [`Limiter`](crate::Limiter) has an example. A permit made by
/// [`Permit::shared`](crate::Permit::shared) holds its source until it ends.
pub trait Source: Send + Sync {
    /// Receives a returned permit, or a part of one.
    fn give_back(&self, grant: Grant, outcome: Outcome);

    /// Refunds a grant that was not used, also to a limit that is refilled with time. `whole` is true for a whole
    /// grant, and false for a part of one.
    ///
    /// The default calls [`give_back`](Self::give_back).
    fn undo(&self, grant: Grant, whole: bool) {
        let _ = whole;
        self.give_back(grant, Outcome::Ignore);
    }

    /// Returns the standing at the moment of the grant, if the limiter reported it. Only a source that is made for one
    /// permit, such as that of a limiter in a store, has it.
    fn standing(&self) -> Option<Standing> {
        None
    }

    /// Returns the metadata of the limiter, if it has any.
    fn metadata(&self) -> Option<&Metadata> {
        None
    }

    /// Returns the current time on the clock of the limiter, if it has one.
    fn now(&self) -> Option<Moment> {
        None
    }

    /// Like [`give_back`](Self::give_back), with the parts of the grant: these fit registers, and a [`Grant`] is passed
    /// in memory.
    #[doc(hidden)]
    #[inline]
    fn give_back_parts(&self, cost: u64, taken: Moment, how: (Priority, bool), outcome: Outcome) {
        let (priority, timed) = how;
        let grant = Grant {
            cost,
            taken,
            priority,
            timed,
        };
        self.give_back(grant, outcome);
    }

    /// Like [`undo`](Self::undo), for a source that may have been reset in the instant of the grant.
    #[doc(hidden)]
    fn undo_of(&self, grant: Grant, whole: bool, era: Era) {
        let _ = era;
        self.undo(grant, whole);
    }

    /// Calls `_each` with the leases of the permit, if it can be lost. Only a source that is made for one permit has
    /// any.
    fn leases(&self, _each: &mut dyn FnMut(&LeaseState)) {}
}

/// A source that its permits may borrow, which saves them the reference count of [`Permit::shared`].
///
/// ```
/// use plimsoll::{Demand, Grant, Outcome, Permit, Shareable, Source};
/// use std::sync::Arc;
///
/// #[derive(Clone)]
/// struct Unlimited;
///
/// impl Source for Unlimited {
///     fn give_back(&self, _grant: Grant, _outcome: Outcome) {}
/// }
///
/// impl Shareable for Unlimited {
///     fn to_shared(&self) -> Arc<dyn Source> {
///         Arc::new(self.clone())
///     }
/// }
///
/// let permit = Permit::new(&Unlimited, Grant::of(Demand::ONE), true);
/// let owned: Permit<'static> = permit.into_owned();
/// # drop(owned);
/// ```
///
/// [`Permit::shared`]: crate::Permit::shared
pub trait Shareable: Source {
    /// Returns the same source, for [permits that outlive the borrow](crate::Permit::into_owned) of their limiter.
    fn to_shared(&self) -> Arc<dyn Source>;
}

/// The number of resets, in the instant of the grant, before it. A moment alone does not distinguish grants before a
/// reset from grants after it in the same instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Era(u8);

impl Era {
    /// Grants in an instant without resets.
    pub(crate) const NONE: Self = Self(0);

    /// Grants that a reset has refunded already, or with an unknown era.
    pub(crate) const LOST: Self = Self(u8::MAX);

    /// Grants after the first reset.
    pub(crate) const FIRST: Self = Self(1);

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    /// The era with this number.
    #[inline]
    pub(crate) fn from_number(number: u64) -> Self {
        u8::try_from(number).map_or(Self::LOST, Self)
    }

    /// The era after one more reset. Beyond the largest number, grants can no longer be undone.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The source of permits that do not know their limiter: it ignores returned permits.
pub(crate) struct NoSource;

impl Source for NoSource {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}
}
