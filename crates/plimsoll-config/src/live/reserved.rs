//! Reservations of limiters that another may take the place of.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use plimsoll::{Demand, Denied, Moment, Permit, Reservation};

use super::generation::{Generation, lock};

/// A reservation of what was granted at once.
pub(super) fn at_once(permit: Permit<'_>) -> Reservation<'_> {
    let now = permit.granted_at();
    Reservation::from_future(now, Some(now), Ready(Some(permit)))
}

/// A permit that is not taken after all unless it is asked for.
struct Ready<'a>(Option<Permit<'a>>);

impl<'a> Future for Ready<'a> {
    type Output = Result<Permit<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0
            .take()
            .map_or(Poll::Pending, |permit| Poll::Ready(Ok(permit)))
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.undo();
        }
    }
}

/// When a reservation was made, and when it may be used.
type Times = (Moment, Option<Moment>);

/// Reserves from a generation, and keeps it for as long as the reservation lasts.
///
/// A reservation borrows its limiter. The limiter behind a name is borrowed by nobody for long, so both are kept in one
/// future: it is polled once to make the reservation, and later by whoever waits for it.
pub(super) fn of_generation<'a>(
    generation: Arc<Generation>,
    demand: Demand,
) -> Result<Reservation<'a>, Denied> {
    let made: Arc<Mutex<Option<Times>>> = Arc::default();
    let tell = Arc::clone(&made);
    let mut future = Box::pin(async move {
        let reservation = generation.one.reserve(demand)?;
        let made_at = generation.one.clock().precise_now();
        let wait = reservation.wait();
        *lock(&tell) = Some((made_at, wait.map(|wait| made_at.plus(wait))));
        let permit = reservation.await?;
        Ok::<Permit<'a>, Denied>(generation.own_shared(permit.into_owned()))
    });
    let first = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    let (made_at, ready_at) = match (first, lock(&made).take()) {
        (Poll::Ready(Ok(permit)), _) => return Ok(at_once(permit)),
        (Poll::Ready(Err(denied)), _) => return Err(denied),
        (Poll::Pending, Some(times)) => times,
        (Poll::Pending, None) => (Moment::ORIGIN, None),
    };
    Ok(Reservation::from_future(made_at, ready_at, future))
}
