use std::fmt;
use std::ops::{Deref, DerefMut};

use plimsoll::{Outcome, Permit};

/// An item together with the permit for it.
///
/// The item counts against the limit until this is dropped, [finished](Self::finish) or [unwrapped](Self::into_inner).
/// Hold it until the work on the item is done.
///
/// ```
/// use plimsoll::{Concurrency, Gate, Outcome};
/// use plimsoll_tokio::channel;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let gate = Gate::new(Concurrency::new(10));
/// let (sender, mut receiver) = channel(gate.clone());
/// sender.try_send("job").unwrap();
///
/// let job = receiver.recv_with_permit().await.unwrap();
/// assert_eq!(job.len(), 3); // dereferences to the item
/// assert_eq!(gate.snapshot().in_use(), 1);
/// job.finish(Outcome::Success);
/// assert_eq!(gate.snapshot().in_use(), 0);
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it counts against the limit until it is dropped"]
pub struct WithPermit<T> {
    item: T,
    permit: Permit<'static>,
}

impl<T> WithPermit<T> {
    /// Attaches a permit to an item.
    pub fn new(item: T, permit: Permit<'static>) -> Self {
        Self { item, permit }
    }

    /// Returns the permit with the outcome of the work, which adaptive limits learn from.
    pub fn finish(self, outcome: Outcome) -> T {
        self.permit.finish(outcome);
        self.item
    }

    /// Returns the permit, and the item without it.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.item
    }

    /// Returns the item and its permit. The item counts until the permit is dropped.
    pub fn into_parts(self) -> (T, Permit<'static>) {
        (self.item, self.permit)
    }

    /// Converts the item, under the same permit.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> WithPermit<U> {
        WithPermit::new(make(self.item), self.permit)
    }

    /// Returns the permit.
    pub fn permit(&self) -> &Permit<'static> {
        &self.permit
    }
}

impl<T> Deref for WithPermit<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> DerefMut for WithPermit<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.item
    }
}

/// A permit without an item yet. Dropping it refunds it, even to a rate.
pub(crate) struct UnusedPermit(Option<Permit<'static>>);

impl UnusedPermit {
    pub(crate) fn new(permit: Permit<'static>) -> Self {
        Self(Some(permit))
    }

    pub(crate) fn get(&self) -> Option<&Permit<'static>> {
        self.0.as_ref()
    }

    /// The permit, to be used.
    pub(crate) fn take(mut self) -> Option<Permit<'static>> {
        self.0.take()
    }
}

impl Drop for UnusedPermit {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.undo();
        }
    }
}

impl fmt::Debug for UnusedPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
