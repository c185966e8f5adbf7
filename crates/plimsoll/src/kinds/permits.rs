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
    more: Vec<Permit<'a>>,
}

impl<'a> Permits<'a> {
    #[inline]
    pub(super) fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub(super) fn push(&mut self, permit: Permit<'a>) {
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(permit),
            None => self.more.push(permit),
        }
    }

    /// How many limiters granted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.few.iter().flatten().count() + self.more.len()
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

    /// Takes all out, the last one first.
    fn drain(&mut self) -> impl Iterator<Item = Permit<'a>> {
        let more = self.more.drain(..).rev();
        more.chain(self.few.iter_mut().rev().filter_map(Option::take))
    }

    /// Gives the permits back and says how the work went.
    #[inline]
    pub fn finish(mut self, outcome: Outcome) {
        self.drain().for_each(|permit| permit.finish(outcome));
    }

    /// As if they had never been granted, even by rates: for work that turned out not to be needed.
    pub fn undo(mut self) {
        self.undo_all();
    }

    pub(super) fn undo_all(&mut self) {
        self.drain().for_each(Permit::undo);
    }

    /// The same permits, no longer tied to the borrow of their provider.
    pub fn into_owned(mut self) -> Permits<'static> {
        let few = std::mem::take(&mut self.few);
        let more = std::mem::take(&mut self.more);
        Permits {
            few: few.map(|permit| permit.map(Permit::into_owned)),
            more: more.into_iter().map(Permit::into_owned).collect(),
        }
    }
}
