use crate::limiter::{Target, settle};
use crate::{Acquire, Clock, Demand, Denied, Metadata, Moment, Permit, Reservation, Standing};

/// A limit for each key, in memory ([`Keyed`](crate::Keyed)) or in a store.
///
/// It is the trait of keyed limits, as [`Limiter`](crate::Limiter) is the trait of single ones.
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
    /// Returns [`Denied`] with the reason and, where it is known, the time after which the demand would be granted.
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied>;

    /// Like [`try_acquire`](Self::try_acquire), for a caller that will wait if it is refused, so that a refusal need
    /// not be counted.
    #[doc(hidden)]
    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.try_acquire(key, demand)
    }

    /// Takes for `key` at once if the fast path can. `None` decides nothing.
    #[doc(hidden)]
    fn attempt_owned(&self, key: &Q, demand: Demand) -> Option<Permit<'static>> {
        self.attempt(key, demand).ok().map(Permit::into_owned)
    }

    /// Takes for `key` at once if the fast path can and nothing is to be returned later; returns the moment of the
    /// grant. A permit that is [spent](Permit::spent) at that moment undoes it. `None` decides nothing.
    ///
    /// It is [`attempt_owned`](Self::attempt_owned) without a permit: passing one through the layers between a name and
    /// its limiter takes as long as the decision.
    #[doc(hidden)]
    fn spend(&self, key: &Q, cost: u64) -> Option<Moment> {
        let _ = (key, cost);
        None
    }

    /// Takes for `key` at once if the fast path can and nothing is to be returned later; returns the standing of the
    /// key after that. `None` decides nothing.
    #[doc(hidden)]
    fn take_now(&self, key: &Q, cost: u64) -> Option<Standing> {
        let _ = (key, cost);
        None
    }

    /// Takes permits of `key`, and waits in its queue if it has one. See
    /// [`Limiter::acquire_owned`](crate::Limiter::acquire_owned).
    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static>;

    /// Takes permits of `key` for later use. The [`Reservation`] says when they may be used. It never waits. Dropping
    /// the reservation cancels it. See [`Limiter::reserve`](crate::Limiter::reserve).
    ///
    /// The default reserves the permits that [`try_acquire`](Self::try_acquire) grants. A limit with permits that do
    /// not know their key overrides it: the reservation has to return its permits.
    ///
    /// # Errors
    ///
    /// Returns an error if the demand is refused, or would have to wait longer than its time-out.
    fn reserve_owned(&self, key: &Q, demand: Demand) -> Result<Reservation<'static>, Denied> {
        let permit = self.try_acquire(key, demand)?;
        Ok(Reservation::ready(permit.into_owned()))
    }

    /// Refunds `permit`, which was granted to `key`. See [`Permit::undo`].
    fn undo(&self, key: &Q, permit: Permit<'_>);

    /// Takes `cost` for `key` after the fact, or as much of it as can be taken. See
    /// [`Gate::charge`](crate::Gate::charge).
    fn charge(&self, key: &Q, cost: u64);

    /// Corrects the cost of a permit of `key` after the work. See [`LimiterExt::settle`](crate::LimiterExt::settle).
    fn settle(&self, key: &Q, permit: &mut Permit<'_>, cost: u64) {
        let undo = |rest| self.undo(key, rest);
        settle(permit, cost, undo, |more| self.charge(key, more));
    }

    /// Returns the clock of the limit, if it has one in this process.
    fn clock(&self) -> Option<&Clock> {
        None
    }

    /// Returns the standing of `key`. The remainder is `None` if the limiter would have to ask a store.
    fn standing(&self, key: &Q) -> Standing;

    /// Returns the standing that all keys without a limit of their own have in common: the limit and its window.
    fn promise(&self) -> Standing;

    /// Returns whether a store has to be asked, so that [`acquire_owned`](Self::acquire_owned) is pending at first
    /// although no demand waits.
    #[doc(hidden)]
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns whether undoing a grant restores the state exactly.
    #[doc(hidden)]
    fn undoes_exactly(&self) -> bool {
        true
    }

    /// Returns whether demands may wait for a key in a queue of its own.
    #[doc(hidden)]
    fn has_queue(&self) -> bool {
        true
    }

    /// Returns the limiter of `key`, for callers that wait for several limiters at once. Only limits of this crate
    /// return one.
    #[doc(hidden)]
    fn target(&self, key: &Q) -> Option<Result<Target, Denied>> {
        let _ = key;
        None
    }

    /// Returns the name of the limit, which its refusals carry.
    fn name(&self) -> Option<&str>;

    /// Returns the metadata of its refusals, if it has any. See [`Metadata`].
    fn metadata(&self) -> Option<&Metadata> {
        None
    }
}
