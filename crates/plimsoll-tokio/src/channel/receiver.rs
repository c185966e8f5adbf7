use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::with_permit::WithPermit;

/// The receiving half of a channel. As a [`Stream`] it yields the items that [`recv`](Self::recv) returns.
///
/// Dropping it drops the items in the channel, returns their permits, and wakes waiting senders, whose sends fail.
pub struct Receiver<T> {
    items: UnboundedReceiver<WithPermit<T>>,
}

impl<T> Receiver<T> {
    pub(super) fn new(items: UnboundedReceiver<WithPermit<T>>) -> Self {
        Self { items }
    }

    /// Receives the next item and returns its permit. `None` when the channel is empty and closed, or has no sender left.
    ///
    /// Cancel safe: dropping the future loses no item.
    pub async fn recv(&mut self) -> Option<T> {
        self.recv_with_permit().await.map(WithPermit::into_inner)
    }

    /// Receives the next item together with its permit, so that the item counts until the work on it is done.
    ///
    /// An adaptive limit needs this: it learns from the outcome reported by [`WithPermit::finish`]. Cancel safe, like
    /// [`recv`](Self::recv).
    pub async fn recv_with_permit(&mut self) -> Option<WithPermit<T>> {
        self.items.recv().await
    }

    /// Receives an item if there is one, and returns its permit.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel is empty: [`TryRecvError::Disconnected`] if it is also closed.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.try_recv_with_permit().map(WithPermit::into_inner)
    }

    /// Receives an item if there is one, together with its permit.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel is empty: [`TryRecvError::Disconnected`] if it is also closed.
    pub fn try_recv_with_permit(&mut self) -> Result<WithPermit<T>, TryRecvError> {
        self.items.try_recv()
    }

    /// Like [`recv_with_permit`](Self::recv_with_permit), for hand-written futures.
    pub fn poll_recv_with_permit(&mut self, cx: &mut Context<'_>) -> Poll<Option<WithPermit<T>>> {
        self.items.poll_recv(cx)
    }

    /// Converts the receiver into a stream of items with their permits.
    pub fn into_permit_receiver(self) -> PermitReceiver<T> {
        PermitReceiver(self)
    }

    /// Closes the channel for senders. Items in the channel can still be received.
    pub fn close(&mut self) {
        self.items.close();
    }

    /// Returns the number of items in the channel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the channel has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let next = self.poll_recv_with_permit(cx);
        next.map(|item| item.map(WithPermit::into_inner))
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("items", &self.len())
            .finish_non_exhaustive()
    }
}

/// A [`Receiver`] as a stream of items with their permits. [`Receiver::into_permit_receiver`] returns one.
#[derive(Debug)]
pub struct PermitReceiver<T>(Receiver<T>);

impl<T> PermitReceiver<T> {
    /// Returns the receiver.
    pub fn into_inner(self) -> Receiver<T> {
        self.0
    }
}

impl<T> Stream for PermitReceiver<T> {
    type Item = WithPermit<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WithPermit<T>>> {
        self.0.poll_recv_with_permit(cx)
    }
}
