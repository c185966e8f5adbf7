//! Reservations from the limit of one key.

use std::borrow::Borrow;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Keyed;
use super::key_gate::Lease;
use crate::reservation::{Pending, Reservation};
use crate::{Demand, Denied, Permit, Reason, Rule};

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Takes permits of `key` for later use: the reservation says when they may be used. See
    /// [`Gate::reserve_owned`](crate::Gate::reserve_owned).
    ///
    /// The reservation borrows neither the limit nor the key. The key is not evicted while the reservation exists.
    /// Dropping the reservation cancels it.
    ///
    /// ```
    /// use plimsoll::{Keyed, ManualClock, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let per_tenant: Keyed<String, _> =
    ///     Keyed::builder(TokenBucket::per_second(1)).clock(time.clock()).build();
    /// let now = per_tenant.reserve_owned("red", 1)?;
    /// let later = per_tenant.reserve_owned("red", 1)?;
    /// assert_eq!(later.wait(), Some(Duration::from_secs(1)));
    /// assert!(per_tenant.reserve_owned("blue", 1)?.wait().unwrap().is_zero());
    ///
    /// assert!(now.wait_blocking().is_ok());
    /// time.advance(Duration::from_secs(1));
    /// assert!(later.wait_blocking().is_ok());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the demand cannot be granted in its time, or there is no room for another key.
    pub fn reserve_owned<Q>(
        &self,
        key: &Q,
        demand: impl Into<Demand>,
    ) -> Result<Reservation<'static>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        let lease = shared.lease(key, shared.gates.clock.precise_now())?;
        let reservation = lease.reserve_owned(demand)?;
        let (made_at, ready_at) = (reservation.made_at(), reservation.ready_at());
        let reserved = ReservedKey {
            reservation,
            lease: Some(lease),
        };
        Ok(Reservation::of(made_at, ready_at, reserved))
    }
}

/// A reservation of the gate of a key.
struct ReservedKey<R: Rule> {
    // Dropped before the lease: it is cancelled while the key keeps its place.
    reservation: Reservation<'static>,
    /// `None` when it has become a permit.
    lease: Option<Lease<R>>,
}

impl<R: Rule> Future for ReservedKey<R> {
    type Output = Result<Permit<'static>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.reservation).poll(cx));
        Poll::Ready(match self.lease.take() {
            Some(lease) => answer.map(|permit| lease.take_over(permit)),
            None => Err(Denied::new(Reason::Closed)),
        })
    }
}

impl<R: Rule> Pending<'static> for ReservedKey<R> {
    fn undo(self: Box<Self>) {
        let Self { reservation, lease } = *self;
        reservation.undo();
        drop(lease);
    }
}
