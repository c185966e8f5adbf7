use crate::limiter::{Target, settle};
use crate::{Acquire, Clock, Demand, Denied, Metadata, Moment, Permit, Reservation, Standing};

/// A limit for each key, in memory ([`Keyed`](crate::Keyed)) or in a store.
///
/// It is the trait of keyed limits, as [`Limiter`](crate::Limiter) is that of single ones.
///
/// ```
/// use plimsoll::{Demand, Keyed, PerKey, TokenBucket};
///
/// fn serve(limits: &dyn PerKey<str>, tenant: &str) -> bool {
///     limits.try_acquire(tenant, Demand::ONE).is_ok()
/// }
///
/// let limits: Keyed<String, _> = Keyed::new(TokenBucket::per_second(1));
/// assert!(serve(&limits, "red") && serve(&limits, "blue"));
/// assert!(!serve(&limits, "red"));
/// ```
pub trait PerKey<Q: ?Sized>: Send + Sync {
    /// Takes permits of `key` now, or refuses the demand. See [`Limiter::try_acquire`](crate::Limiter::try_acquire).
    ///
    /// # Errors
    ///
    /// [`Denied`] holds the reason and, where it is known, the time after which the demand would be granted.
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied>;

    /// [`try_acquire`](Self::try_acquire) by a caller that will wait if it is refused, so that a refusal need not be
    /// counted.
    #[doc(hidden)]
    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.try_acquire(key, demand)
    }

    /// Takes for `key` at once if that is quickly done. `None` decides nothing.
    #[doc(hidden)]
    fn attempt_owned(&self, key: &Q, demand: Demand) -> Option<Permit<'static>> {
        self.attempt(key, demand).ok().map(Permit::into_owned)
    }

    /// Takes for `key` at once if that is quickly done and nothing is to be returned later, and says when: a permit that was
    /// [spent](Permit::spent) then undoes it. `None` decides nothing.
    ///
    /// What [`attempt_owned`](Self::attempt_owned) does, without a permit: to pass one on in memory, through everything that
    /// stands between a name and its limiter, takes as long as the decision.
    #[doc(hidden)]
    fn spend(&self, key: &Q, cost: u64) -> Option<Moment> {
        let _ = (key, cost);
        None
    }

    /// Takes for `key` at once if that is quickly done and nothing is to be returned later, and says how the key stands then.
    /// `None` decides nothing.
    #[doc(hidden)]
    fn take_now(&self, key: &Q, cost: u64) -> Option<Standing> {
        let _ = (key, cost);
        None
    }

    /// Takes permits of `key`, and waits where that is possible. See [`Limiter::acquire_owned`](crate::Limiter::acquire_owned).
    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static>;

    /// Takes permits of `key` that may be used later, and says when. It never waits. Dropping the reservation cancels it. See
    /// [`Limiter::reserve`](crate::Limiter::reserve).
    ///
    /// The default reserves what [`try_acquire`](Self::try_acquire) grants. A limit whose permits do not know their key implements
    /// it: the reservation has to return what it holds.
    ///
    /// # Errors
    ///
    /// If the demand is refused, or would have to wait longer than its time-out.
    fn reserve_owned(&self, key: &Q, demand: Demand) -> Result<Reservation<'static>, Denied> {
        let permit = self.try_acquire(key, demand)?;
        Ok(Reservation::ready(permit.into_owned()))
    }

    /// Refunds `permit`, which was granted to `key`. See [`Permit::undo`].
    fn undo(&self, key: &Q, permit: Permit<'_>);

    /// Takes `cost` after the fact, as much as can be taken. See [`Gate::charge`](crate::Gate::charge).
    fn charge(&self, key: &Q, cost: u64);

    /// Corrects a permit of `key` whose work turned out to cost `cost`. See
    /// [`LimiterExt::settle`](crate::LimiterExt::settle).
    fn settle(&self, key: &Q, permit: &mut Permit<'_>, cost: u64) {
        let undo = |rest| self.undo(key, rest);
        settle(permit, cost, undo, |more| self.charge(key, more));
    }

    /// The clock of the limit, if it has one in this process.
    fn clock(&self) -> Option<&Clock> {
        None
    }

    /// What is reported to the owner of `key`. What remains is `None` where a store would have to be asked.
    fn standing(&self, key: &Q) -> Standing;

    /// What all keys without a limit of their own have in common: the limit and its window.
    fn promise(&self) -> Standing;

    /// Whether a store has to be asked, so that [`acquire_owned`](Self::acquire_owned) is pending at first
    /// although no demand waits.
    #[doc(hidden)]
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether undoing a grant leaves no trace.
    #[doc(hidden)]
    fn undoes_exactly(&self) -> bool {
        true
    }

    /// Whether callers may wait for a key in a queue of its own.
    #[doc(hidden)]
    fn has_queue(&self) -> bool {
        true
    }

    /// What `key` stands for, for callers that ask several limiters at once and wait. Only limits of this crate say so.
    #[doc(hidden)]
    fn target(&self, key: &Q) -> Option<Result<Target, Denied>> {
        let _ = key;
        None
    }

    /// The name of the limit, which its refusals carry.
    fn name(&self) -> Option<&str>;

    /// What its refusals say about it besides, if anything. See [`Metadata`].
    fn metadata(&self) -> Option<&Metadata> {
        None
    }
}
