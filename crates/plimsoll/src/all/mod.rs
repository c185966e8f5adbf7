mod events;
mod gathered;
mod limiter;
mod members;
#[cfg(all(test, loom))]
mod model;
mod reserved;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use crate::acquire::Stage;
use crate::name::Name;
use crate::together::Group;
use crate::totals::Totals;
use crate::{Acquire, Demand, Denied, InvalidLimit, Limiter, Listeners, Permit};

pub(crate) use members::Members;

/// Combines several limiters: a demand is granted by all of them or by none.
///
/// The members are asked in order. When one refuses, the others are left as if they had not been asked, including rates
/// and penalties. The refusal is that of the first member that refuses, with the time after which all would grant. A
/// limiter that is a member several times, also as a member of a member, is asked for the sum of the costs. The members
/// can still be used and shared on their own.
///
/// ```
/// use plimsoll::{All, Concurrency, Demand, Gate, Limiter, Quota, TokenBucket};
/// use std::sync::Arc;
///
/// let tenant = Arc::new(Gate::new(TokenBucket::per_second(100)));
/// let disk = Arc::new(Gate::builder(Concurrency::new(1)).name("disk").build());
/// let both = All::new([tenant.clone() as Arc<dyn Limiter>, disk.clone()]);
///
/// let permit = both.try_acquire(1)?;
/// let denied = both.try_acquire(1).unwrap_err();
/// assert_eq!(denied.limiter(), Some("disk"));
/// assert_eq!(tenant.snapshot().available(), 99); // charged once
/// # Ok::<(), plimsoll::Denied>(())
/// ```
///
/// # Waiting
///
/// [`acquire`](Limiter::acquire) waits in the queue of the member that refuses, and holds no permit while it waits.
/// When that member has room, the others are asked again. If another refuses, the demand keeps its place and joins the
/// queue of that member too, ordered by its age. Fifo queues reserve room for the oldest demand that waits for several
/// limiters, so that it is not overtaken forever. A time-out or deadline covers all members together, measured on the
/// clock of each. Limiters in stores are asked last, while the grants of the others are held.
#[derive(Clone)]
pub struct All {
    members: Arc<Members>,
}

impl All {
    /// Creates a limiter that takes from all of `members`.
    ///
    /// # Panics
    ///
    /// Panics if `members` is empty.
    #[track_caller]
    pub fn new(members: impl IntoIterator<Item = Arc<dyn Limiter>>) -> Self {
        match Self::try_new(members) {
            Ok(all) => all,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Creates a limiter that takes from all of `members`.
    ///
    /// # Errors
    ///
    /// Returns an error if `members` is empty.
    pub fn try_new(
        members: impl IntoIterator<Item = Arc<dyn Limiter>>,
    ) -> Result<Self, InvalidLimit> {
        let members: Box<[_]> = members.into_iter().collect();
        if members.is_empty() {
            return Err(InvalidLimit::new("of", "empty", "at least 1 limiter"));
        }
        Ok(Self::with(members, None))
    }

    fn with(limiters: Box<[Arc<dyn Limiter>]>, name: Option<Name>) -> Self {
        let group = Group::new(limiters.iter().map(|limiter| (limiter, None, ()))).named(name);
        let members = Arc::new_cyclic(|me| Members {
            limiters,
            group,
            totals: Totals::new(true),
            undone: AtomicU64::new(0),
            listeners: Listeners::new(),
            name,
            me: Weak::clone(me),
        });
        Self { members }
    }

    fn of(members: Arc<Members>) -> Self {
        Self { members }
    }

    /// Sets the name. A refusal carries the name of the member that refused if it has one, otherwise this name.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Self::with(self.members.limiters.clone(), Some(Name::new(name)))
    }

    /// Takes from all members now, or from none. It never waits. See [`Limiter::try_acquire`].
    ///
    /// # Errors
    ///
    /// Returns the refusal of the first member that refuses, with the moment at which all would grant.
    pub fn try_acquire(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        self.members.try_acquire(demand.into())
    }

    /// Takes from all members, and waits in the queue of a member that refuses. Dropping the future leaves all queues.
    /// See [`Limiter::acquire`].
    pub fn acquire(&self, demand: impl Into<Demand>) -> Acquire<'_> {
        Acquire(Stage::Start(&*self.members, demand.into()))
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .members
            .limiters
            .iter()
            .map(|member| member.name())
            .collect();
        f.debug_struct("All")
            .field("name", &self.members.name)
            .field("members", &names)
            .finish()
    }
}
