use std::fmt;

use plimsoll::{Denied, Reason};
use tokio::sync::mpsc::UnboundedSender;

use super::sender::deliver;
use super::{Cost, SendError};
use crate::held::{Held, Unused};

/// Room for one item. See [`Sender::reserve`](super::Sender::reserve).
///
/// Dropping it unused is as if it had never been reserved, even by a rate.
#[must_use = "a slot takes room until it is used or dropped"]
pub struct Slot<T> {
    items: UnboundedSender<Held<T>>,
    cost: Cost<T>,
    permit: Unused,
}

impl<T> Slot<T> {
    pub(super) fn new(items: UnboundedSender<Held<T>>, cost: Cost<T>, permit: Unused) -> Self {
        Self {
            items,
            cost,
            permit,
        }
    }

    /// How much an item may cost.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.permit.get().map_or(0, |permit| permit.cost())
    }

    /// Sends the item. If it costs less than was reserved, the rest goes back.
    ///
    /// # Errors
    ///
    /// The item, if it costs more than was reserved, or the channel is closed.
    pub fn send(self, item: T) -> Result<(), SendError<T>> {
        let (cost, room) = ((self.cost)(&item).cost(), self.room());
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
