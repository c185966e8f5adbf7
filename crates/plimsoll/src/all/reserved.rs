use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Members;
use super::elsewhere::Gathering;
use crate::gate::Pending;
use crate::{Demand, Denied, Permit, Reservation};

/// The reservations of all members, and the permits of those whose time has come.
pub(super) struct Reserved<'a> {
    members: &'a Members,
    demand: Demand,
    held: Vec<Reservation<'a>>,
    ready: Vec<Permit<'a>>,
}

impl<'a> Reserved<'a> {
    pub(super) fn new(members: &'a Members, demand: Demand, held: Vec<Reservation<'a>>) -> Self {
        Self {
            members,
            demand,
            held,
            ready: Vec::new(),
        }
    }
}

impl<'a> Future for Reserved<'a> {
    type Output = Result<Permit<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        while let Some(next) = this.held.get_mut(this.ready.len()) {
            match Pin::new(next).poll(cx) {
                Poll::Ready(Ok(permit)) => this.ready.push(permit),
                Poll::Ready(Err(denied)) => return Poll::Ready(Err(denied)),
                Poll::Pending => return Poll::Pending,
            }
        }
        // Each was granted at a moment of its own, so the permits themselves are kept.
        let ready = this.ready.drain(..).map(Permit::into_owned);
        let gathering = Gathering(ready.collect());
        let now = this.members.clock().now();
        Poll::Ready(Ok(this.members.gathered(gathering, this.demand, now)))
    }
}

impl<'a> Pending<'a> for Reserved<'a> {
    fn undo(mut self: Box<Self>) {
        let ready = self.ready.len();
        self.held.drain(ready..).rev().for_each(Reservation::undo);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        // Before all are ready none has been used.
        self.ready.drain(..).rev().for_each(Permit::undo);
    }
}
