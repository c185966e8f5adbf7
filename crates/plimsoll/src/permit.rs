use std::fmt;
use std::sync::Arc;

use crate::{Moment, Priority, Standing};

/// How the work behind a permit went, for limits that learn from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Outcome {
    /// It was done.
    Success,
    /// It failed because there was too much of it.
    Overload,
    /// It says nothing about the load. A permit that is simply dropped says this.
    #[default]
    Ignore,
}

/// What was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// How many permits.
    pub cost: u32,
    /// When.
    pub taken: Moment,
    /// To work of which class.
    pub priority: Priority,
    /// Whether a limit that learns is to learn from it. Where very much is granted, only some of it is
    /// timed.
    pub timed: bool,
}

/// Where permits come from and go back to.
///
/// Only those who write a limiter of their own need this.
pub trait Source: Send + Sync {
    /// What was granted is given back.
    fn give_back(&self, grant: Grant, outcome: Outcome);

    /// What was granted was not used after all: as if it had not been granted, even by a limit that is not
    /// given back to. `whole` says whether that takes a grant back, and not just a part of one.
    fn undo(&self, grant: Grant, whole: bool);

    /// What was left when it was granted, if whoever granted it said so. Only a source that is made for one permit, as
    /// that of a limiter far away, knows.
    fn standing(&self) -> Option<Standing> {
        None
    }

    /// The same source, for permits that outlive the borrow of their limiter.
    fn to_shared(&self) -> Arc<dyn Source>;
}

/// The right to do something, until it is dropped.
///
/// A permit of a limit that is given back ([`Concurrency`](crate::Concurrency)) gives back exactly what
/// it took, once, when it is dropped. A permit of a rate gives nothing back: time does.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
///
/// let gate = Gate::new(Concurrency::new(10));
/// let mut permit = gate.try_acquire(5)?;
/// let part = permit.split(2).unwrap();
/// drop(permit);
/// assert_eq!(gate.snapshot().in_use(), 2);
///
/// // For work that outlives this scope: independent of the borrow of `gate`.
/// let part = part.into_owned();
/// std::thread::spawn(move || drop(part)).join().unwrap();
/// assert_eq!(gate.snapshot().in_use(), 0);
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[must_use = "a permit that is dropped at once permits nothing"]
pub struct Permit<'a> {
    source: Origin<'a>,
    cost: u32,
    /// Whether dropping it gives anything back.
    returns: bool,
    /// Whether it is what was granted, and not split off from it.
    whole: bool,
    priority: Priority,
    timed: bool,
    taken: Moment,
}

enum Origin<'a> {
    Borrowed(&'a dyn Source),
    Shared(Arc<dyn Source>),
    /// Nothing more can be done with it.
    Nowhere,
}

impl Origin<'_> {
    fn get(&self) -> &dyn Source {
        match self {
            Self::Borrowed(source) => *source,
            Self::Shared(source) => &**source,
            Self::Nowhere => &Spent,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.get(), other.get())
    }
}

impl<'a> Permit<'a> {
    /// A permit for what was granted, for those who write a limiter of their own. With `returns`, dropping it
    /// calls [`Source::give_back`].
    #[inline]
    pub fn new(source: &'a dyn Source, grant: Grant, returns: bool) -> Self {
        Self {
            source: Origin::Borrowed(source),
            cost: grant.cost,
            returns,
            whole: true,
            priority: grant.priority,
            timed: grant.timed,
            taken: grant.taken,
        }
    }

    /// A permit that belongs to its limiter without borrowing it.
    #[inline]
    pub fn shared(source: Arc<dyn Source>, grant: Grant, returns: bool) -> Self {
        Self {
            source: Origin::Shared(source),
            cost: grant.cost,
            returns,
            whole: true,
            priority: grant.priority,
            timed: grant.timed,
            taken: grant.taken,
        }
    }

    /// A permit that nothing more can be done with: it gives nothing back, and undoing it does nothing.
    #[inline]
    pub fn spent(grant: Grant) -> Self {
        Self {
            source: Origin::Nowhere,
            cost: grant.cost,
            returns: false,
            whole: true,
            priority: grant.priority,
            timed: grant.timed,
            taken: grant.taken,
        }
    }

    /// Whether nothing more can be done with it.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        matches!(self.source, Origin::Nowhere)
    }

    /// What this is a permit for.
    #[inline]
    #[must_use]
    pub fn grant(&self) -> Grant {
        Grant {
            cost: self.cost,
            taken: self.taken,
            priority: self.priority,
            timed: self.timed,
        }
    }

    /// How many permits this is.
    #[must_use]
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// The class of the work it was granted to.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// When it was granted.
    #[must_use]
    pub fn granted_at(&self) -> Moment {
        self.taken
    }

    /// What was left when it was granted, if that came with it.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.source.get().standing()
    }

    /// Makes a permit of its own of a part of this one. `None` if this one is smaller than that.
    pub fn split(&mut self, cost: u32) -> Option<Self> {
        self.cost = self.cost.checked_sub(cost)?;
        Some(Self {
            source: match &self.source {
                Origin::Borrowed(source) => Origin::Borrowed(*source),
                Origin::Shared(source) => Origin::Shared(Arc::clone(source)),
                Origin::Nowhere => Origin::Nowhere,
            },
            cost,
            whole: false,
            ..*self
        })
    }

    /// Makes one permit of two of the same limiter.
    ///
    /// # Errors
    ///
    /// Hands `other` back if it is of another limiter, or if no permit could be so large.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        let sum = self.cost.checked_add(other.cost);
        match sum {
            Some(sum) if self.source.is_same(&other.source) => {
                self.cost = sum;
                // The older moment: undoing the sum then never gives back more than was taken.
                self.taken = self.taken.min(other.taken);
                self.whole |= other.whole;
                self.timed &= other.timed;
                other.returns = false;
                Ok(())
            }
            _ => Err(other),
        }
    }

    /// Never gives the permit back.
    pub fn forget(mut self) {
        self.returns = false;
    }

    /// Gives the permit back and says how the work went.
    pub fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// As if it had never been granted, even by a rate: for work that turned out not to be needed.
    ///
    /// Never makes more available than there would be without it.
    pub fn undo(mut self) {
        self.returns = false;
        self.source.get().undo(self.grant(), self.whole);
    }

    /// The same permit, no longer tied to the borrow of its limiter.
    pub fn into_owned(mut self) -> Permit<'static> {
        let permit = Permit {
            source: match std::mem::replace(&mut self.source, Origin::Nowhere) {
                Origin::Borrowed(source) => Origin::Shared(source.to_shared()),
                Origin::Shared(source) => Origin::Shared(source),
                Origin::Nowhere => Origin::Nowhere,
            },
            cost: self.cost,
            returns: self.returns,
            whole: self.whole,
            priority: self.priority,
            timed: self.timed,
            taken: self.taken,
        };
        self.returns = false;
        permit
    }

    fn give_back(&mut self, outcome: Outcome) {
        if std::mem::take(&mut self.returns) && self.cost > 0 {
            self.source.get().give_back(self.grant(), outcome);
        }
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.give_back(Outcome::Ignore);
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("cost", &self.cost)
            .field("granted_at", &self.taken)
            .finish_non_exhaustive()
    }
}

/// Where permits come from that nothing more can be done with.
struct Spent;

impl Source for Spent {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}

    fn to_shared(&self) -> Arc<dyn Source> {
        // Of no size, so nothing is allocated but the counts.
        Arc::new(Self)
    }
}
