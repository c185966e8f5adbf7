mod parts;

pub use parts::Parts;
pub(crate) use parts::{Kind, Part, Several};

use crate::{
    Acquire, Clock, Demand, Denied, Permit, Reason, Reservation, Snapshot, Source, Standing,
};

/// Anything that says how much load is safe.
///
/// One trait for limits that replenish themselves and limits that are given back, so that code can be
/// handed a `&dyn Limiter` or an `Arc<dyn Limiter>` and not care. Three verbs:
///
/// - [`try_acquire`](Self::try_acquire): now or not at all.
/// - [`acquire`](Self::acquire): may wait in the limiter's queue.
/// - [`reserve`](Self::reserve): never waits, but says when.
///
/// A success is a [`Permit`], a refusal an error, [`Denied`].
pub trait Limiter: Send + Sync {
    /// Takes now, or is refused.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why, and when to try again.
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied>;

    /// Takes, waiting in the limiter's queue if it has one.
    ///
    /// Nothing happens before the first poll. Dropping the future leaves the queue at once; it never
    /// loses a permit.
    fn acquire(&self, demand: Demand) -> Acquire<'_>;

    /// [`acquire`](Self::acquire), independent of the borrow of the limiter: for futures and services that are kept.
    ///
    /// A limiter in which nobody waits need not provide it: it is asked at once.
    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Acquire::ready(self.try_acquire(demand).map(Permit::into_owned))
    }

    /// Takes now what may be used later, and says when. Dropping the reservation cancels it.
    ///
    /// # Errors
    ///
    /// If it is refused, or would have to wait longer than the demand is willing to.
    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied>;

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing and counts nothing.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    fn estimate(&self, demand: Demand) -> Result<(), Denied>;

    /// What the limiter looks like now.
    fn snapshot(&self) -> Snapshot;

    /// What callers are told of the limit. What remains of it is left out where a store would have to be asked.
    fn standing(&self) -> Standing {
        let seen = self.snapshot();
        Standing::new(seen.limit, seen.available)
    }

    /// Whether answers have to be asked for elsewhere, so that [`acquire`](Self::acquire) is pending at first though nobody
    /// waits. Such a limiter is asked last, and what others have granted is held meanwhile.
    fn is_remote(&self) -> bool {
        false
    }

    /// Refuses everybody who waits and everybody who comes. Permits that are out may still be dropped.
    fn close(&self);

    /// The name the limiter was given.
    fn name(&self) -> Option<&str>;

    /// The clock it goes by.
    fn clock(&self) -> &Clock;

    /// Where the permits of this limiter go back to.
    fn source(&self) -> &dyn Source;

    /// What it consists of, for those who ask several limiters at once. Only limiters of this crate say so.
    #[doc(hidden)]
    fn parts(&self) -> Parts<'_> {
        Parts::default()
    }

    /// [`try_acquire`](Self::try_acquire) by one who will wait if it is refused, so that a refusal need not be
    /// counted.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why.
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.try_acquire(demand)
    }

    /// Takes at once if that is quickly done, independent of the borrow of the limiter. `None` says nothing yet:
    /// [`acquire_owned`](Self::acquire_owned) decides.
    ///
    /// A permit that gives nothing back need not know its limiter: [`undo`](Self::undo) takes it back.
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        self.attempt(demand).ok().map(Permit::into_owned)
    }

    /// As if `permit`, which this limiter granted, had never been granted. See [`Permit::undo`].
    fn undo(&self, permit: Permit<'_>) {
        permit.undo();
    }

    /// Takes after the fact, as much as can be taken. See [`Gate::charge`](crate::Gate::charge). A limiter that cannot
    /// does nothing.
    fn charge(&self, cost: u32) {
        let _ = cost;
    }

    /// Corrects a permit of this limiter whose work turned out to cost `cost`, more or less than was taken for it: as
    /// if that had been taken when the permit was granted.
    ///
    /// A limiter that cannot tell what came since then charges the difference now, or undoes it.
    fn settle(&self, permit: &mut Permit<'_>, cost: u32) {
        if let Some(rest) = permit.split(permit.cost().saturating_sub(cost)) {
            self.undo(rest);
        }
        if !permit.gives_back()
            && let Some((before, _)) = permit.settle(cost)
        {
            self.charge(cost - before.cost);
        }
    }

    /// Whether there is room for anything new: for callers who do not start what will be refused anyway. Takes nothing
    /// and counts nothing.
    ///
    /// A limit that replenishes itself is saturated when nothing is available and nothing more may wait; one that is
    /// given back to, when what is in use and what waits reach the limit and the bound of the queue together.
    ///
    /// # Errors
    ///
    /// [`Saturated`](Reason::Saturated), with the name of the limiter.
    fn check_saturation(&self) -> Result<(), Denied> {
        let seen = self.snapshot();
        if seen.available > 0 || seen.queued < seen.queue_bound {
            return Ok(());
        }
        let limit = u32::try_from(seen.limit).unwrap_or(u32::MAX);
        let denied = Denied::new(Reason::Saturated).with_limit(limit, 0);
        Err(match self.name() {
            Some(name) => denied.with_limiter(name),
            None => denied,
        })
    }

    /// Takes, blocking the thread while it waits. For threads outside of async runtimes; bound the wait
    /// with [`Demand::within`].
    ///
    /// # Errors
    ///
    /// [`Denied`] says why.
    fn acquire_blocking(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        crate::blocking::wait(self.acquire(demand))
    }
}
