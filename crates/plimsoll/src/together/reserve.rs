//! Taking ahead of time: from all, or from none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Permits;
use super::refusal::refuse_reservation;
use super::{List, refuse, too_large};
use crate::{Denied, Permit, Reservation};

/// The reservations of all members, and the permits of those whose time has come.
///
/// Dropping it cancels them.
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reserved<'a> {
    held: Vec<Reservation<'a>>,
    ready: Vec<Permit<'a>>,
    wait: Option<Duration>,
}

/// Reserves with each; or with none. What was reserved with those before the refusal is undone, however long that took.
pub(super) fn reserve<'a>(list: impl List<'a>) -> Result<Reserved<'a>, Denied> {
    if let Some((index, denied)) = too_large(list) {
        return Err(refuse(list, index, denied));
    }
    let mut reserved = Reserved {
        held: Vec::with_capacity(list.len()),
        ready: Vec::new(),
        wait: Some(Duration::ZERO),
    };
    // Where undoing would leave a trace is asked last, so that there is as little to undo as can be.
    let undoes = |index| {
        let gate = list.member(index).gate();
        gate.is_none_or(|gate| gate.undoes_exactly())
    };
    for exactly in [true, false] {
        for index in (0..list.len()).filter(|&index| undoes(index) == exactly) {
            let member = list.member(index);
            let Some(demand) = list.demand(index) else {
                continue;
            };
            match member.limiter().reserve(demand) {
                Ok(reservation) => {
                    let wait = reserved.wait.zip(reservation.wait());
                    reserved.wait = wait.map(|(longest, wait)| longest.max(wait));
                    reserved.held.push(reservation);
                }
                Err(denied) => {
                    // Before the others are asked when they would grant.
                    reserved.undo();
                    return Err(refuse_reservation(list, index, denied));
                }
            }
        }
    }
    Ok(reserved)
}

impl<'a> Reserved<'a> {
    /// How long the wait was when it was made: that for the last of them. `None` if it depends on others returning permits.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
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

    /// As if it had never been made. See [`Reservation::undo`].
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
        // The last one first, as they were taken. Before all are ready none has been used.
        while let Some(last) = self.held.pop() {
            drop(last);
        }
        while let Some(permit) = self.ready.pop() {
            permit.undo();
        }
    }
}
