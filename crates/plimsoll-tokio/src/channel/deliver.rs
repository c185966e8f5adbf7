//! The parts that a sender and a slot share: the cost of an item, and its delivery into the channel.

use std::sync::Arc;

use plimsoll::{Demand, Permit};
use tokio::sync::mpsc::UnboundedSender;

use super::SendError;
use crate::with_permit::WithPermit;

/// The demand of an item.
pub(super) type Cost<T> = Arc<dyn Fn(&T) -> Demand + Send + Sync>;

/// Adds an item to the channel, or refunds its permit.
pub(super) fn deliver<T>(
    items: &UnboundedSender<WithPermit<T>>,
    item: T,
    permit: Permit<'static>,
) -> Result<(), SendError<T>> {
    items.send(WithPermit::new(item, permit)).map_err(|unsent| {
        let (item, permit) = unsent.0.into_parts();
        permit.undo();
        SendError::Closed(item)
    })
}
