use std::fmt;

use plimsoll::{Denied, Reason};
use tokio::sync::mpsc::UnboundedSender;

use super::SendError;
use super::deliver::{Cost, deliver};
use crate::with_permit::{UnusedPermit, WithPermit};

/// Reserved room for one item. [`Sender::reserve`](super::Sender::reserve) returns one.
///
/// Dropping it unused refunds the reservation, even to a rate.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_tokio::channel_with_cost;
///
/// let bytes = Gate::new(Concurrency::new(100));
/// let size = |text: &&str| u64::try_from(text.len()).unwrap_or(u64::MAX);
/// let (sender, _receiver) = channel_with_cost(bytes.clone(), size);
///
/// let slot = sender.try_reserve(60).unwrap();
/// assert_eq!(slot.room(), 60);
/// slot.send("much shorter").unwrap(); // the rest is refunded
/// assert_eq!(bytes.snapshot().in_use(), 12);
/// ```
#[must_use = "a slot takes room until it is used or dropped"]
pub struct Slot<T> {
    items: UnboundedSender<WithPermit<T>>,
    cost: Cost<T>,
    permit: UnusedPermit,
}

impl<T> Slot<T> {
    pub(super) fn new(
        items: UnboundedSender<WithPermit<T>>,
        cost: Cost<T>,
        permit: UnusedPermit,
    ) -> Self {
        Self {
            items,
            cost,
            permit,
        }
    }

    /// Returns the most that the item may cost.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.permit.get().map_or(0, |permit| permit.cost())
    }

    /// Sends the item. If it costs less than was reserved, the rest is refunded.
    ///
    /// # Errors
    ///
    /// Returns the item, if it costs more than was reserved, or the channel is closed.
    pub fn send(self, item: T) -> Result<(), SendError<T>> {
        let (cost, room) = ((self.cost)(&item).cost, self.room());
        if cost > room {
            let denied = Denied::new(Reason::TooLarge).with_limit(room, room);
            return Err(SendError::Full(item, denied));
        }
        let Some(mut permit) = self.permit.take() else {
            return Err(SendError::Closed(item));
        };
        if cost < room
            && let Some(rest) = permit.split(room - cost)
        {
            rest.undo();
        }
        deliver(&self.items, item, permit)
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("room", &self.room()).finish()
    }
}
