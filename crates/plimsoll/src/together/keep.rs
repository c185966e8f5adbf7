//! Reservations that own their limiter.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Demand, Denied, Limiter, Moment, Permit, Reservation};

/// The moment at which a reservation was made, and the moment at which it may be used.
type Times = (Moment, Option<Moment>);

/// Like [`Limiter::reserve`], with a reservation that owns its limiter.
///
/// A reservation borrows its limiter, so both are stored in one future: it is polled once to make the reservation, and
/// later by the task that awaits it.
///
/// # Errors
///
/// Returns an error if the demand is refused, or would have to wait longer than its time-out.
pub fn reserve_shared(
    limiter: Arc<dyn Limiter>,
    demand: Demand,
) -> Result<Reservation<'static>, Denied> {
    let made: Arc<Mutex<Option<Times>>> = Arc::default();
    let tell = Arc::clone(&made);
    let mut future = Box::pin(async move {
        let reservation = limiter.reserve(demand)?;
        let times = (reservation.made_at(), reservation.ready_at());
        *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(times);
        // Until it is awaited it can still be cancelled.
        let mut made = false;
        poll_fn(|_| match std::mem::replace(&mut made, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        reservation.await.map(Permit::into_owned)
    });
    let first = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    let times = made.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (first, times) {
        (Poll::Ready(Err(denied)), _) => Err(denied),
        (Poll::Pending, Some((made_at, ready_at))) => {
            Ok(Reservation::from_future(made_at, ready_at, future))
        }
        _ => unreachable!("the first poll refuses, or makes it and waits"),
    }
}
