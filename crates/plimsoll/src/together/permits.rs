use std::sync::Arc;

use crate::limiter::Several;
use crate::{Outcome, Permit};

/// The number of permits that are stored inline. A request rarely has more limits.
const FEW: usize = 4;

/// The permits of several limiters, granted together and returned together.
///
/// Dropping it returns them, as dropping each [`Permit`] would. Up to four are stored without allocating.
#[derive(Default)]
#[must_use = "permits that are dropped at once permit nothing"]
pub struct Permits<'a> {
    few: [Option<Permit<'a>>; FEW],
    /// The number of used places, from the first.
    taken: usize,
    more: Vec<Permit<'a>>,
    /// Limiters that consist of others and have counted the grant.
    several: Vec<Arc<dyn Several>>,
}

impl<'a> Permits<'a> {
    /// Creates an empty list of permits.
    #[doc(hidden)]
    #[inline]
    pub fn new() -> Self {
        Self {
            few: [None, None, None, None],
            taken: 0,
            more: Vec::new(),
            several: Vec::new(),
        }
    }

    /// Adds a permit.
    #[doc(hidden)]
    #[inline]
    pub fn push(&mut self, permit: Permit<'a>) {
        match self.few.get_mut(self.taken) {
            Some(place) => {
                *place = Some(permit);
                self.taken += 1;
            }
            None => self.more.push(permit),
        }
    }

    /// Records a limiter that has counted the grant, to be corrected when it is undone.
    pub(super) fn counted_by(&mut self, several: &Arc<dyn Several>) {
        self.several.push(Arc::clone(several));
    }

    /// Removes the last permit.
    #[inline]
    fn pop(&mut self) -> Option<Permit<'a>> {
        if let Some(last) = self.more.pop() {
            return Some(last);
        }
        self.taken = self.taken.checked_sub(1)?;
        self.few.get_mut(self.taken)?.take()
    }

    /// Returns the number of permits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.taken + self.more.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the permits, in the order in which the limiters granted them.
    pub fn iter(&self) -> impl Iterator<Item = &Permit<'a>> {
        self.few.iter().flatten().chain(&self.more)
    }

    /// Returns the permits and reports the result of the work.
    pub fn finish(mut self, outcome: Outcome) {
        self.finish_all(outcome);
    }

    /// Like [`finish`](Self::finish), in place.
    #[doc(hidden)]
    #[inline]
    pub fn finish_all(&mut self, outcome: Outcome) {
        while let Some(permit) = self.pop() {
            permit.finish(outcome);
        }
    }

    /// Undoes the grants, also of rates, for work that was not needed. See [`Permit::undo`].
    pub fn undo(mut self) {
        self.undo_all();
    }

    /// Like [`undo`](Self::undo), in place.
    #[doc(hidden)]
    pub fn undo_all(&mut self) {
        for several in self.several.drain(..) {
            several.count_undone();
        }
        while let Some(permit) = self.pop() {
            permit.undo();
        }
    }

    /// Returns the same permits without the borrow of their limiters.
    pub fn into_owned(mut self) -> Permits<'static> {
        let few = std::mem::take(&mut self.few);
        let more = std::mem::take(&mut self.more);
        Permits {
            few: few.map(|permit| permit.map(Permit::into_owned)),
            taken: self.taken,
            more: more.into_iter().map(Permit::into_owned).collect(),
            several: std::mem::take(&mut self.several),
        }
    }

    /// Returns the permits one by one. Undoing one of them no longer undoes the whole.
    pub fn into_each(mut self) -> impl Iterator<Item = Permit<'a>> {
        let few = std::mem::take(&mut self.few);
        let more = std::mem::take(&mut self.more);
        few.into_iter().flatten().chain(more)
    }
}

impl std::fmt::Debug for Permits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
