use crate::{Outcome, Permit};

/// How many permits are kept in place. A request has seldom more weights than there are well-known ones.
const FEW: usize = 4;

/// The permits of several limiters, taken together and given back together.
///
/// Dropping it gives them back, as dropping each [`Permit`] would. Up to four are kept without allocating.
#[derive(Debug, Default)]
#[must_use = "permits that are dropped at once permit nothing"]
pub struct Permits<'a> {
    few: [Option<Permit<'a>>; FEW],
    /// How many of the places are taken, from the first.
    taken: usize,
    more: Vec<Permit<'a>>,
}

impl<'a> Permits<'a> {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            few: [None, None, None, None],
            taken: 0,
            more: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, permit: Permit<'a>) {
        match self.few.get_mut(self.taken) {
            Some(place) => {
                *place = Some(permit);
                self.taken += 1;
            }
            None => self.more.push(permit),
        }
    }

    /// Takes the last one out.
    #[inline]
    fn pop(&mut self) -> Option<Permit<'a>> {
        if let Some(last) = self.more.pop() {
            return Some(last);
        }
        self.taken = self.taken.checked_sub(1)?;
        self.few.get_mut(self.taken)?.take()
    }

    /// How many limiters granted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.taken + self.more.len()
    }

    /// Whether there was nothing to ask for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each permit, in the order in which they were taken.
    pub fn iter(&self) -> impl Iterator<Item = &Permit<'a>> {
        self.few.iter().flatten().chain(&self.more)
    }

    /// Gives the permits back and says how the work went.
    pub fn finish(mut self, outcome: Outcome) {
        self.finish_all(outcome);
    }

    #[inline]
    pub(super) fn finish_all(&mut self, outcome: Outcome) {
        while let Some(permit) = self.pop() {
            permit.finish(outcome);
        }
    }

    /// As if they had never been granted, even by rates: for work that turned out not to be needed.
    pub fn undo(mut self) {
        self.undo_all();
    }

    pub(super) fn undo_all(&mut self) {
        while let Some(permit) = self.pop() {
            permit.undo();
        }
    }

    /// The same permits, no longer tied to the borrow of their provider.
    pub fn into_owned(mut self) -> Permits<'static> {
        let few = std::mem::take(&mut self.few);
        let more = std::mem::take(&mut self.more);
        Permits {
            few: few.map(|permit| permit.map(Permit::into_owned)),
            taken: self.taken,
            more: more.into_iter().map(Permit::into_owned).collect(),
        }
    }
}
