//! Taking at once: from all, or from none.

use super::leaves::Held;
use super::transaction::{Transaction, Verdict};
use super::{Decision, List, Set, Word, refuse, too_large};
use crate::gate::Stamp;
use crate::{Demand, Denied, Grant, Moment, Permit};

/// What was taken from each.
#[derive(Default)]
pub(crate) struct Taken<'a> {
    /// Permits of limiters that are no gates.
    pub(crate) held: Held<'a>,
    pub(crate) moments: Moments,
    /// Those of whose grant nothing is to be learned.
    pub(crate) untimed: Set,
    /// When something was taken, where that is not the moment that was read.
    pub(crate) stamps: Vec<(usize, Stamp)>,
}

/// When a decision was made, on the clock of each limiter.
#[derive(Default)]
pub(crate) struct Moments {
    one: Moment,
    each: Vec<Moment>,
}

impl Moments {
    /// The moment, read once if there is one clock: then all was taken in the same instant, and can be undone exactly.
    #[inline]
    pub(crate) fn now<'a>(list: impl List<'a>, read: impl Fn(&crate::Clock) -> Moment) -> Self {
        if list.local() == 0 {
            return Self::default();
        }
        if list.one_clock() {
            return Self {
                one: read(list.member(0).clock()),
                each: Vec::new(),
            };
        }
        let each = (0..list.local()).map(|index| read(list.member(index).clock()));
        Self {
            one: Moment::ORIGIN,
            each: each.collect(),
        }
    }

    #[inline]
    pub(crate) fn of(&self, index: usize) -> Moment {
        self.each.get(index).copied().unwrap_or(self.one)
    }
}

impl<'a> Taken<'a> {
    /// When it was taken from one.
    #[inline]
    fn stamp(&self, index: usize) -> Stamp {
        let other = self.stamps.iter().find(|(of, _)| *of == index);
        other.map_or_else(|| Stamp::at(self.moments.of(index)), |(_, stamp)| *stamp)
    }

    #[inline]
    fn grant(&self, index: usize, demand: Demand) -> Grant {
        Grant {
            timed: !self.untimed.contains(index),
            ..demand.granted(self.stamp(index).at)
        }
    }

    /// Whether everything was taken at the moment that was read, on one clock.
    #[inline]
    pub(crate) fn is_of_one_moment(&self) -> bool {
        self.moments.each.is_empty() && self.stamps.is_empty()
    }

    /// The permit of one.
    pub(crate) fn permit(&mut self, list: impl List<'a>, index: usize) -> Option<Permit<'a>> {
        let demand = list.demand(index)?;
        match list.member(index).gate {
            Some(gate) => {
                let grant = self.grant(index, demand);
                let permit = Permit::new(gate, grant, gate.gives_back());
                Some(permit.in_era(self.stamp(index).era))
            }
            None => self.held.take(index),
        }
    }
}

/// Takes from all that are not asked elsewhere; or from none, and says who refused. With `note` the refusal is counted and
/// explained.
#[inline]
pub(crate) fn attempt<'a>(
    list: impl List<'a>,
    note: bool,
) -> Result<Taken<'a>, (usize, Option<Denied>)> {
    let mut taken = Taken {
        moments: if list.precise() {
            Moments::now(list, crate::Clock::precise_now)
        } else {
            Moments::now(list, crate::Clock::now)
        },
        ..Taken::default()
    };
    let mut words = Set::default();
    let mut parked = Set::default();
    for index in 0..list.local() {
        let Some(cost) = list.cost(index) else {
            continue;
        };
        let refused = match (list.member(index).gate, u32::try_from(cost)) {
            (Some(gate), Ok(cost)) => match gate.take_word(taken.moments.of(index), cost) {
                Word::Granted { timed } => {
                    words.insert(index);
                    if !timed {
                        taken.untimed.insert(index);
                    }
                    continue;
                }
                Word::Parked => {
                    parked.insert(index);
                    continue;
                }
                Word::Refused(refusal, word) => Some((refusal, word)),
            },
            (None, Ok(_)) => match ask(list, index, note) {
                Ok(permit) => {
                    taken.held.push(index, permit);
                    continue;
                }
                Err(denied) => {
                    undo(list, &mut taken, &words);
                    let denied = note.then(|| refuse(list, index, denied));
                    return Err((index, denied));
                }
            },
            (_, Err(_)) => None,
        };
        undo(list, &mut taken, &words);
        let moments = &taken.moments;
        return Err(refused_by_word(
            list, index, refused, moments, &parked, note,
        ));
    }
    if parked.is_empty() {
        return Ok(taken);
    }
    let mut transaction = Transaction::new(list, &parked, &taken.moments, note);
    match transaction.run() {
        Verdict::Taken => {
            taken.stamps = std::mem::take(&mut transaction.stamps);
            Ok(taken)
        }
        Verdict::Refused(index, denied) => {
            undo(list, &mut taken, &words);
            let denied = denied.map(|denied| refuse(list, index, denied));
            Err((index, denied))
        }
    }
}

fn ask<'a>(list: impl List<'a>, index: usize, note: bool) -> Result<Permit<'a>, Denied> {
    let limiter = list.member(index).limiter;
    let Some(demand) = list.demand(index) else {
        unreachable!("only those are asked of whom something is asked");
    };
    if note {
        limiter.try_acquire(demand)
    } else {
        limiter.attempt(demand)
    }
}

/// Who refused, and what is said about it: the first of those that were asked and would refuse, in the order of the list.
#[cold]
fn refused_by_word<'a>(
    list: impl List<'a>,
    index: usize,
    refused: Option<(crate::Refusal, u64)>,
    moments: &Moments,
    parked: &Set,
    note: bool,
) -> (usize, Option<Denied>) {
    let Some((refusal, word)) = refused else {
        if !note {
            return (index, None);
        }
        let denied = too_large(list).map(|(index, denied)| refuse(list, index, denied));
        return (index, denied);
    };
    for before in (0..index).filter(|&before| parked.contains(before)) {
        let (Some(gate), Some(demand)) = (list.member(before).gate, list.demand(before)) else {
            continue;
        };
        let answer = if note {
            gate.note(moments.of(before), demand)
        } else {
            gate.hint(demand)
        };
        if let Err(denied) = answer {
            return (before, note.then(|| refuse(list, before, denied)));
        }
    }
    if !note {
        return (index, None);
    }
    let denied = match (list.member(index).gate, list.demand(index)) {
        (Some(gate), Some(demand)) => gate.note_word(refusal, word, moments.of(index), demand.cost),
        _ => unreachable!("a word is that of a gate"),
    };
    (index, Some(refuse(list, index, denied)))
}

/// As if nothing had been taken by a word, nor from one that is no gate.
#[cold]
pub(super) fn undo<'a>(list: impl List<'a>, taken: &mut Taken<'a>, words: &Set) {
    for index in (0..list.local())
        .rev()
        .filter(|&index| words.contains(index))
    {
        if let (Some(gate), Some(demand)) = (list.member(index).gate, list.demand(index)) {
            gate.undo(taken.grant(index, demand), true);
        }
    }
    taken.held.undo(list);
}

/// What each gate of a transaction does.
pub(super) fn decision(refuser: Option<usize>, index: usize, note: bool) -> Decision {
    match refuser {
        None => Decision::Take,
        Some(refuser) if note && refuser == index => Decision::Note,
        Some(_) => Decision::Leave,
    }
}
