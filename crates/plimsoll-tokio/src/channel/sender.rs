use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use plimsoll::{Demand, Denied, Permit, Reason};
use plimsoll_kinds::Resource;
use tokio::sync::mpsc::UnboundedSender;

use super::deliver::{Cost, deliver};
use super::{SendError, Slot};
use crate::with_permit::{UnusedPermit, WithPermit};

/// The sending half of a channel. Clones send to the same channel.
///
/// ```
/// use plimsoll::{Concurrency, Gate, Queue};
/// use plimsoll_tokio::channel;
/// use plimsoll_tokio::channel::SendError;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), SendError<&'static str>> {
/// let gate = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(100)).build();
/// let (sender, mut receiver) = channel(gate);
/// sender.send("a").await?;
///
/// let other = sender.clone();
/// let waiting = tokio::spawn(async move { other.send("b").await }); // waits for room
/// assert_eq!(receiver.recv().await, Some("a"));
/// assert_eq!(receiver.recv().await, Some("b"));
/// waiting.await.unwrap()?;
///
/// drop(receiver);
/// assert!(matches!(sender.try_send("c"), Err(SendError::Closed("c"))));
/// # Ok(()) }
/// ```
pub struct Sender<T> {
    items: UnboundedSender<WithPermit<T>>,
    limiter: Resource,
    cost: Cost<T>,
}

impl<T> Sender<T> {
    pub(super) fn new(
        items: UnboundedSender<WithPermit<T>>,
        limiter: Resource,
        cost: Cost<T>,
    ) -> Self {
        Self {
            items,
            limiter,
            cost,
        }
    }

    /// Sends an item without waiting.
    ///
    /// # Errors
    ///
    /// Returns the item, if the limiter refuses it or the channel is closed.
    pub fn try_send(&self, item: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError::Closed(item));
        }
        match self.limiter.try_acquire((self.cost)(&item)) {
            Ok(permit) => deliver(&self.items, item, permit.into_owned()),
            Err(denied) => Err(SendError::refused(item, denied)),
        }
    }

    /// Sends an item. Waits in the queue of the limiter if it has one; a limiter without a queue refuses at once.
    ///
    /// Cancel safe: dropping the future leaves the queue, and the item is not sent. The item is dropped with the
    /// future; to keep it, wait with [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// Returns the item, if the limiter refuses it, before or after waiting, or the channel is or becomes closed.
    pub async fn send(&self, item: T) -> Result<(), SendError<T>> {
        match self.wait((self.cost)(&item)).await {
            Ok(permit) => deliver(&self.items, item, permit),
            Err(denied) => Err(SendError::refused(item, denied)),
        }
    }

    /// Waits for room for an item that costs `demand` and is sent later. Cancel safe: dropping the future leaves the
    /// queue, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the limiter refuses, or the channel is or becomes closed.
    pub async fn reserve(&self, demand: impl Into<Demand>) -> Result<Slot<T>, SendError<()>> {
        match self.wait(demand.into()).await {
            Ok(permit) => Ok(self.slot(permit)),
            Err(denied) => Err(SendError::refused((), denied)),
        }
    }

    /// [Reserves](Self::reserve) without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if the limiter refuses, or the channel is closed.
    pub fn try_reserve(&self, demand: impl Into<Demand>) -> Result<Slot<T>, SendError<()>> {
        if self.is_closed() {
            return Err(SendError::Closed(()));
        }
        match self.limiter.try_acquire(demand.into()) {
            Ok(permit) => Ok(self.slot(permit.into_owned())),
            Err(denied) => Err(SendError::refused((), denied)),
        }
    }

    fn slot(&self, permit: Permit<'static>) -> Slot<T> {
        Slot::new(
            self.items.clone(),
            Arc::clone(&self.cost),
            UnusedPermit::new(permit),
        )
    }

    /// Waits for a permit, or until the channel is closed.
    async fn wait(&self, demand: Demand) -> Result<Permit<'static>, Denied> {
        let closed = Denied::new(Reason::Closed);
        if self.is_closed() {
            return Err(closed);
        }
        let mut permit = self.limiter.acquire_owned(demand);
        let mut gone = pin!(self.items.closed());
        poll_fn(|cx| match Pin::new(&mut permit).poll(cx) {
            Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(closed.clone())),
            answer => answer,
        })
        .await
    }

    /// Returns whether the receiver was dropped or has closed the channel.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.items.is_closed()
    }

    /// Waits until the receiver is dropped or closes the channel.
    pub async fn closed(&self) {
        self.items.closed().await;
    }

    /// Returns the limiter that bounds the channel.
    pub fn limiter(&self) -> &Resource {
        &self.limiter
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            limiter: self.limiter.clone(),
            cost: Arc::clone(&self.cost),
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("limiter", &self.limiter)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
