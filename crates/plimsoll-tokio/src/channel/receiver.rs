use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::held::Held;

/// The end of a channel that is received from. As a [`Stream`] it does what [`recv`](Self::recv) does.
///
/// Dropping it drops what is in the channel, gives its permits back, and wakes who waits to send.
pub struct Receiver<T> {
    items: UnboundedReceiver<Held<T>>,
}

impl<T> Receiver<T> {
    pub(super) fn new(items: UnboundedReceiver<Held<T>>) -> Self {
        Self { items }
    }

    /// Receives the next item and gives its permit back. `None` when the channel is empty and nobody
    /// can send any more.
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<T> {
        self.recv_held().await.map(Held::into_inner)
    }

    /// Receives the next item together with its permit, so that it counts until the work on it is done.
    ///
    /// An adaptive limit learns from nothing but this: say how the work went with [`Held::finish`].
    pub async fn recv_held(&mut self) -> Option<Held<T>> {
        self.items.recv().await
    }

    /// Receives what is there.
    ///
    /// # Errors
    ///
    /// If nothing is there, or nothing will be.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.try_recv_held().map(Held::into_inner)
    }

    /// Receives what is there, together with its permit.
    ///
    /// # Errors
    ///
    /// If nothing is there, or nothing will be.
    pub fn try_recv_held(&mut self) -> Result<Held<T>, TryRecvError> {
        self.items.try_recv()
    }

    /// [`recv_held`](Self::recv_held), for those who write a future of their own.
    pub fn poll_recv_held(&mut self, cx: &mut Context<'_>) -> Poll<Option<Held<T>>> {
        self.items.poll_recv(cx)
    }

    /// The same receiver, as a stream of items with their permits.
    pub fn into_held(self) -> HeldReceiver<T> {
        HeldReceiver(self)
    }

    /// Lets nobody send any more. What is in the channel can still be received.
    pub fn close(&mut self) {
        self.items.close();
    }

    /// How many items are in the channel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no item is in the channel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv_held(cx)
            .map(|held| held.map(Held::into_inner))
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("items", &self.len())
            .finish_non_exhaustive()
    }
}

/// A [`Receiver`] as a stream of items with their permits. See [`Receiver::into_held`].
#[derive(Debug)]
pub struct HeldReceiver<T>(Receiver<T>);

impl<T> HeldReceiver<T> {
    /// The receiver.
    pub fn into_inner(self) -> Receiver<T> {
        self.0
    }
}

impl<T> Stream for HeldReceiver<T> {
    type Item = Held<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Held<T>>> {
        self.0.poll_recv_held(cx)
    }
}
