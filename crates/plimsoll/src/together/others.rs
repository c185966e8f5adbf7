use super::List;
use crate::Permit;

/// Permits of limiters that are not gates, with the index of the member. Up to four are stored inline.
#[derive(Default)]
pub(crate) struct OtherPermits<'a> {
    few: [Option<(usize, Permit<'a>)>; 4],
    more: Vec<(usize, Permit<'a>)>,
}

impl<'a> OtherPermits<'a> {
    pub(crate) fn push(&mut self, index: usize, permit: Permit<'a>) {
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some((index, permit)),
            None => self.more.push((index, permit)),
        }
    }

    /// Takes out the permit of one member.
    pub(crate) fn take(&mut self, index: usize) -> Option<Permit<'a>> {
        let few = self.few.iter_mut();
        let mut places = few.filter(|place| matches!(place, Some((of, _)) if *of == index));
        if let Some(place) = places.next() {
            return place.take().map(|(_, permit)| permit);
        }
        let at = self.more.iter().position(|(of, _)| *of == index)?;
        Some(self.more.swap_remove(at).1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.few.iter().all(Option::is_none) && self.more.is_empty()
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        let held = self.few.iter().flatten().chain(&self.more);
        held.into_iter().any(|(of, _)| *of == index)
    }

    /// Undoes the permits, by their limiters: a permit need not know its limiter.
    pub(crate) fn undo(&mut self, list: impl List<'a>) {
        while let Some((index, permit)) = self.more.pop() {
            list.member(index).limiter().undo(permit);
        }
        for place in self.few.iter_mut().rev() {
            if let Some((index, permit)) = place.take() {
                list.member(index).limiter().undo(permit);
            }
        }
    }
}
