use crate::joint::KeyGate;
use crate::limiter::settle;
use crate::{Acquire, Clock, Demand, Denied, Permit, Standing};

/// A limit for each key, wherever its states are kept: in memory ([`Keyed`](crate::Keyed)) or in a store.
///
/// It is to `Keyed` what [`Limiter`](crate::Limiter) is to [`Gate`](crate::Gate): for code that has keys, whatever the
/// limits behind them.
pub trait PerKey<Q: ?Sized>: Send + Sync {
    /// Takes for `key` now, or is refused. See [`Limiter::try_acquire`](crate::Limiter::try_acquire).
    ///
    /// # Errors
    ///
    /// [`Denied`] says why, and when to try again.
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied>;

    /// [`try_acquire`](Self::try_acquire) by a caller who will wait if it is refused, so that a refusal need not be
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

    /// Takes for `key`, waiting where that is possible. See [`Limiter::acquire_owned`](crate::Limiter::acquire_owned).
    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static>;

    /// As if `permit`, which was granted to `key`, had never been granted. See [`Permit::undo`].
    fn undo(&self, key: &Q, permit: Permit<'_>);

    /// Takes after the fact, as much as can be taken. See [`Gate::charge`](crate::Gate::charge).
    fn charge(&self, key: &Q, cost: u32);

    /// Corrects a permit of `key` whose work turned out to cost `cost`. See
    /// [`LimiterExt::settle`](crate::LimiterExt::settle).
    fn settle(&self, key: &Q, permit: &mut Permit<'_>, cost: u32) {
        let undo = |rest| self.undo(key, rest);
        settle(permit, cost, undo, |more| self.charge(key, more));
    }

    /// The clock it goes by, if it has one here.
    fn clock(&self) -> Option<&Clock> {
        None
    }

    /// What the owner of `key` is told of its limit. What remains of it is left out where a store would have to be
    /// asked.
    fn standing(&self, key: &Q) -> Standing;

    /// What every key without a limit of its own is promised: the limit and its window.
    fn promise(&self) -> Standing;

    /// Whether a store has to be asked, so that [`acquire_owned`](Self::acquire_owned) is pending at first though
    /// nobody waits.
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

    /// The gate of `key`, for callers that ask several limiters at once and wait. Only limits of this crate have one.
    #[doc(hidden)]
    fn key_gate(&self, key: &Q) -> Option<Result<KeyGate, Denied>> {
        let _ = key;
        None
    }

    /// Its name.
    fn name(&self) -> Option<&str>;
}
