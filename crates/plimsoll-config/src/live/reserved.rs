//! Reservations of limiters that another may take the place of.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use plimsoll::{Demand, Denied, Moment, Permit, Reservation};

use super::version::{Version, lock};

/// When a reservation was made, and when it may be used.
type Times = (Moment, Option<Moment>);

/// Reserves from a version, and keeps it for as long as the reservation lasts.
///
/// A reservation borrows its limiter. The limiter behind a name is borrowed by nobody for long, so both are kept in one
/// future: it is polled once to make the reservation, and later by whoever waits for it.
pub(super) fn of_version<'a>(
    version: Arc<Version>,
    demand: Demand,
) -> Result<Reservation<'a>, Denied> {
    let made: Arc<Mutex<Option<Times>>> = Arc::default();
    let tell = Arc::clone(&made);
    let mut future = Box::pin(async move {
        let reservation = version.one.reserve(demand)?;
        *lock(&tell) = Some(times(&reservation, &version));
        // Until somebody waits for it, it can still be cancelled.
        let mut made = false;
        poll_fn(|_| match std::mem::replace(&mut made, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        let permit = reservation.await?;
        Ok::<Permit<'a>, Denied>(version.own_shared(permit.into_owned()))
    });
    let first = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    let times = lock(&made).take();
    match (first, times) {
        (Poll::Ready(Err(denied)), _) => Err(denied),
        (Poll::Ready(Ok(permit)), _) => Ok(Reservation::ready(permit)),
        (Poll::Pending, times) => {
            let (made_at, ready_at) = times.unwrap_or((Moment::ORIGIN, None));
            Ok(Reservation::from_future(made_at, ready_at, future))
        }
    }
}

fn times(reservation: &Reservation<'_>, version: &Version) -> Times {
    let ready_at = reservation.ready_at();
    let made_at = ready_at.zip(reservation.wait()).map(|(ready_at, wait)| {
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Moment::from_nanos(ready_at.as_nanos().saturating_sub(wait))
    });
    let now = || version.one.clock().precise_now();
    (made_at.unwrap_or_else(now), ready_at)
}
