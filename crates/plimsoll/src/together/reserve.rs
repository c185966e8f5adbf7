//! Taking ahead of time: from all, or from none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::refusal::refuse_reservation;
use super::{List, refuse, too_large};
use crate::{Denied, Permit, Reservation};

/// The reservations of all members, and the permits of those whose time has come.
pub(crate) struct Reserved<'a> {
    held: Vec<Reservation<'a>>,
    ready: Vec<Permit<'a>>,
    wait: Option<Duration>,
}

/// Reserves with each; or with none. What was reserved with those before the refusal is undone, however long that took.
pub(crate) fn reserve<'a>(list: impl List<'a>) -> Result<Reserved<'a>, Denied> {
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
        let gate = list.member(index).gate;
        gate.is_none_or(|gate| gate.undoes_exactly())
    };
    for exactly in [true, false] {
        for index in (0..list.len()).filter(|&index| undoes(index) == exactly) {
            let member = list.member(index);
            let Some(demand) = list.demand(index) else {
                continue;
            };
            match member.limiter.reserve(demand) {
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
    /// How long it had to be waited for when it was made: as long as for the last of them. `None` if that depends on
    /// others giving back.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The permits, when all are there.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Permit<'a>>, Denied>> {
        while let Some(next) = self.held.get_mut(self.ready.len()) {
            match Pin::new(next).poll(cx) {
                Poll::Ready(Ok(permit)) => self.ready.push(permit),
                Poll::Ready(Err(denied)) => return Poll::Ready(Err(denied)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.held.clear();
        Poll::Ready(Ok(std::mem::take(&mut self.ready)))
    }

    /// As if it had never been made.
    pub(crate) fn undo(mut self) {
        let ready = self.ready.len();
        self.held.drain(ready..).rev().for_each(Reservation::undo);
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
