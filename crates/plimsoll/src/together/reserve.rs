//! Reservations: with all members, or with none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Permits;
use super::refusal::refuse_reservation;
use super::{Left, List, refuse, too_large};
use crate::{Denied, Permit, Reservation};

/// Reservations of several limiters, made together.
///
/// Awaiting it waits until all can be used, and yields their permits. Dropping it before that cancels all of them, see
/// [`Reservation`].
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reserved<'a> {
    held: Vec<Reservation<'a>>,
    ready: Vec<Permit<'a>>,
    wait: Option<Duration>,
}

/// Reserves with each member, or with none: reservations before a refusal are undone, however long that took.
pub(super) fn reserve<'a>(list: impl List<'a>) -> Result<Reserved<'a>, Denied> {
    if let Some((index, denied)) = too_large(list) {
        return Err(refuse(list, index, denied));
    }
    let mut reserved = Reserved {
        held: Vec::with_capacity(list.len()),
        ready: Vec::new(),
        wait: Some(Duration::ZERO),
    };
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_cached_key(|&index| last_to_undo(list, index));
    for index in order {
        let Some(demand) = list.demand(index) else {
            continue;
        };
        match list.member(index).limiter().reserve(demand) {
            Ok(reservation) => {
                let wait = reserved.wait.zip(reservation.wait());
                reserved.wait = wait.map(|(longest, wait)| longest.max(wait));
                reserved.held.push(reservation);
            }
            Err(denied) => {
                // Undone before the retry times of the others are computed.
                reserved.undo();
                return Err(refuse_reservation(list, index, denied));
            }
        }
    }
    Ok(reserved)
}

/// The order in which members are asked. Members that cannot be undone exactly come last, and among them first those
/// that are likely to refuse, so that nothing has to be undone there.
fn last_to_undo<'a>(list: impl List<'a>, index: usize) -> u8 {
    let (Some(gate), Some(demand)) = (list.member(index).gate(), list.demand(index)) else {
        return 0;
    };
    if gate.undoes_exactly() {
        return 0;
    }
    match gate.hint(demand) {
        Ok(()) => 3,
        Err(denied) => {
            let left = Left::at(demand, gate.clock().precise_now());
            let in_vain = !denied.reason().is_passing() || left.is_less_than(denied.retry_after());
            if in_vain { 1 } else { 2 }
        }
    }
}

impl<'a> Reserved<'a> {
    /// Returns the time from the making of the reservations until the last of them is ready. `None` if that depends on
    /// permits that other callers return.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns whether all could be used at once when it was made.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }

    /// Blocks the thread until all can be used.
    ///
    /// # Errors
    ///
    /// Returns an error if a limiter was closed, or a reservation had a place in a queue and lost it.
    pub fn wait_blocking(self) -> Result<Permits<'a>, Denied> {
        crate::blocking::wait(self)
    }

    fn poll_each(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Denied>> {
        while let Some(next) = self.held.get_mut(self.ready.len()) {
            match Pin::new(next).poll(cx) {
                Poll::Ready(Ok(permit)) => self.ready.push(permit),
                Poll::Ready(Err(denied)) => return Poll::Ready(Err(denied)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.held.clear();
        Poll::Ready(Ok(()))
    }

    /// Cancels it as if it had never been made. See [`Reservation::undo`].
    pub fn undo(mut self) {
        let ready = self.ready.len();
        self.held.drain(ready..).rev().for_each(Reservation::undo);
    }
}

impl<'a> Future for Reserved<'a> {
    type Output = Result<Permits<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_each(cx).map_ok(|()| {
            let mut permits = Permits::new();
            self.ready.drain(..).for_each(|permit| permits.push(permit));
            permits
        })
    }
}

impl std::fmt::Debug for Reserved<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reserved")
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        // In reverse order. None has been used before all are ready.
        while let Some(last) = self.held.pop() {
            drop(last);
        }
        while let Some(permit) = self.ready.pop() {
            permit.undo();
        }
    }
}
