//! Reservations that survive the replacement of their limiter.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use plimsoll::together::{WatchReplaced, reserve_shared};
use plimsoll::{Demand, Denied, Reservation};

use super::binding::Binding;
use super::replaced::Watch;
use super::version::Version;
use super::waiting::Wait;

/// Reserves from the present version of a binding, for callers with or without a key.
///
/// A reservation of a rate stays valid when the version is replaced. A reservation with a place in a queue then waits
/// for the next version, as all waiters do.
pub(super) fn of_version(
    binding: &Arc<Binding>,
    version: &Arc<Version>,
    key: Option<&str>,
    demand: Demand,
) -> Result<Reservation<'static>, Denied> {
    let reservation = match key {
        Some(key) => version.keys.reserve_owned(key, demand)?,
        None => reserve_shared(Arc::clone(&version.one), demand)?,
    };
    let waits = demand.kept_until(demand.deadline(reservation.made_at()));
    let queued = reservation.ready_at().is_none();
    let (binding, version) = (Arc::clone(binding), Arc::clone(version));
    let watch = queued.then(|| Watch::new(Arc::clone(&binding), Arc::clone(&version)));
    let mut next = Wait::new(binding, key, waits);
    Ok(reservation.followed(move |first, cx| {
        if let Some(reservation) = first {
            let is_replaced = match Pin::new(reservation).poll(cx) {
                Poll::Pending => watch.as_ref().is_some_and(|it| it.is_replaced(cx.waker())),
                Poll::Ready(Err(denied)) if queued && version.is_in_between(&denied) => true,
                Poll::Ready(answer) => {
                    *first = None;
                    return Poll::Ready(answer.map(|permit| version.own_shared(permit)));
                }
            };
            if !is_replaced {
                return Poll::Pending;
            }
            *first = None;
        }
        Pin::new(&mut next).poll(cx)
    }))
}
