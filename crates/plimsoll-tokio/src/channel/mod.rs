//! A channel whose bound is a limiter.
//!
//! Tokio's channels count items. Here whatever a [`Limiter`](plimsoll::Limiter) can count is the bound: bytes, items of a
//! second, what an adaptive limit thinks is good, or [`All`](plimsoll::All) of them. Senders wait in the limiter's own
//! queue, with its order, priorities, deadlines and bound.
//!
//! The permit travels with the item. It is given back when the item is [received](Receiver::recv), or when
//! the work on it is done ([`recv_held`](Receiver::recv_held)), or when the item is dropped with its channel.
//!
//! A rate paces who sends, and nothing more: what was sent lies in the channel until it is received. Where the
//! receiver may be slower than the rate, bound what lies there by an `All` of the rate and a
//! [`Concurrency`](plimsoll::Concurrency).
//!
//! # Order
//!
//! What one sender sends one after the other is received in this order. Among senders the limiter's queue
//! decides.

mod error;
mod receiver;
mod sender;
mod slot;

use std::sync::Arc;

use plimsoll::Demand;
use plimsoll::kinds::Resource;
use tokio::sync::mpsc;

pub use error::SendError;
pub use receiver::{HeldReceiver, Receiver};
pub use sender::Sender;
pub use slot::Slot;

/// What an item asks of the limiter.
type Cost<T> = Arc<dyn Fn(&T) -> Demand + Send + Sync>;

/// A channel in which every item costs 1.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_tokio::channel;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (sender, mut receiver) = channel(Gate::new(Concurrency::new(2)));
/// sender.try_send("a").unwrap();
/// sender.try_send("b").unwrap();
/// assert_eq!(sender.try_send("c").unwrap_err().into_inner(), "c");
///
/// assert_eq!(receiver.recv().await, Some("a"));
/// assert!(sender.try_send("c").is_ok());
/// # });
/// ```
pub fn channel<T>(limiter: impl Into<Resource>) -> (Sender<T>, Receiver<T>) {
    channel_with_cost(limiter, |_| Demand::ONE)
}

/// A channel in which an item costs what `cost` says: a number, or a [`Demand`] with a priority or a deadline
/// too.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_tokio::channel_with_cost;
///
/// let size = |text: &&str| u32::try_from(text.len()).unwrap_or(u32::MAX);
/// let (sender, _receiver) = channel_with_cost(Gate::new(Concurrency::new(10)), size);
/// assert!(sender.try_send("six...").is_ok());
/// assert!(sender.try_send("five.").is_err());
/// assert!(sender.try_send("four").is_ok());
/// ```
pub fn channel_with_cost<T, D: Into<Demand>>(
    limiter: impl Into<Resource>,
    cost: impl Fn(&T) -> D + Send + Sync + 'static,
) -> (Sender<T>, Receiver<T>) {
    let (items, received) = mpsc::unbounded_channel();
    let cost: Cost<T> = Arc::new(move |item| cost(item).into());
    (
        Sender::new(items, limiter.into(), cost),
        Receiver::new(received),
    )
}
