use std::fmt;
use std::ops::{Deref, DerefMut};

use plimsoll::{Outcome, Permit};

/// Something together with the permit it was let through by.
///
/// It counts against the limit until it is dropped, [taken out](Self::into_inner), or
/// [finished](Self::finish). Keep it as long as the work on it takes.
#[derive(Debug)]
#[must_use = "it counts against the limit until it is dropped"]
pub struct Held<T> {
    item: T,
    permit: Permit<'static>,
}

impl<T> Held<T> {
    /// Puts the two together.
    pub fn new(item: T, permit: Permit<'static>) -> Self {
        Self { item, permit }
    }

    /// Gives the permit back, and says how the work went to a limit that learns from it.
    pub fn finish(self, outcome: Outcome) -> T {
        self.permit.finish(outcome);
        self.item
    }

    /// Gives the permit back.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.item
    }

    /// Takes the two apart. What was let through counts as long as the permit is there.
    pub fn into_parts(self) -> (T, Permit<'static>) {
        (self.item, self.permit)
    }

    /// Makes something else of the item, under the same permit.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Held<U> {
        Held::new(make(self.item), self.permit)
    }

    /// The permit.
    pub fn permit(&self) -> &Permit<'static> {
        &self.permit
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.item
    }
}

/// A permit that is not used yet. If it never is, it is as if it had not been granted, even by a rate.
pub(crate) struct Unused(Option<Permit<'static>>);

impl Unused {
    pub(crate) fn new(permit: Permit<'static>) -> Self {
        Self(Some(permit))
    }

    pub(crate) fn get(&self) -> Option<&Permit<'static>> {
        self.0.as_ref()
    }

    /// It is used now.
    pub(crate) fn take(mut self) -> Option<Permit<'static>> {
        self.0.take()
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.undo();
        }
    }
}

impl fmt::Debug for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
