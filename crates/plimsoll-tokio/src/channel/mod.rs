//! A channel whose bound is a limiter.
//!
//! The channels of tokio are bounded by a number of items. Here the bound is any [`Limiter`](plimsoll::Limiter): bytes, items
//! per second, an adaptive limit, or [`All`](plimsoll::All) of them. Senders wait in the queue of the limiter, with its order,
//! priorities, deadlines and bound.
//!
//! The permit travels with the item. It is returned when the item is [received](Receiver::recv), when the work on it is done
//! ([`recv_with_permit`](Receiver::recv_with_permit)), or when the item is dropped with its channel.
//!
//! A rate only paces senders: sent items stay in the channel until they are received. If the receiver may be slower than the
//! rate, bound the channel by an `All` of the rate and a [`Concurrency`](plimsoll::Concurrency).
//!
//! # Order
//!
//! The items of one sender are received in the order in which they were sent. Among senders, the queue of the limiter
//! decides.

mod deliver;
mod error;
mod receiver;
mod sender;
mod slot;

use std::sync::Arc;

use plimsoll::Demand;
use plimsoll_kinds::Resource;
use tokio::sync::mpsc;

pub use error::SendError;
pub use receiver::{PermitReceiver, Receiver};
pub use sender::Sender;
pub use slot::Slot;

/// Creates a channel in which every item costs 1.
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

/// Creates a channel in which `cost` returns the cost of an item: a number, or a [`Demand`] with a priority or a
/// deadline.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_tokio::channel_with_cost;
///
/// let size = |text: &&str| u64::try_from(text.len()).unwrap_or(u64::MAX);
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
    (
        Sender::new(
            items,
            limiter.into(),
            Arc::new(move |item| cost(item).into()),
        ),
        Receiver::new(received),
    )
}
