use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{Denied, Permit, Reservation};

/// The reservations of all members, and the permits of those whose time has come.
pub(super) struct Reserved<'a> {
    held: Vec<Reservation<'a>>,
    ready: Vec<Permit<'a>>,
}

impl<'a> Reserved<'a> {
    pub(super) fn new(held: Vec<Reservation<'a>>) -> Self {
        Self {
            held,
            ready: Vec::new(),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Denied>> {
        while let Some(next) = self.held.get_mut(self.ready.len()) {
            match Pin::new(next).poll(cx) {
                Poll::Ready(Ok(permit)) => self.ready.push(permit),
                Poll::Ready(Err(denied)) => return Poll::Ready(Err(denied)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.ready.drain(..).for_each(Permit::forget);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        // Before all are ready none has been used.
        self.ready.drain(..).for_each(Permit::undo);
    }
}
