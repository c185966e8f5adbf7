//! Taking at once: from all, or from none.

use std::mem::ManuallyDrop;

use super::others::OtherPermits;
use super::transaction::{Transaction, TransactionOutcome};
use super::words::{ByWord, ByWords, Open, take_words, undo_word};
use super::{List, Set, refuse, too_large};
use crate::joint::{Decision, Exchange, Word};
use crate::stamp::Stamp;
use crate::unwind::{First, isolated};
use crate::{Clock, Demand, Denied, Grant, Moment, Permit};

/// The grants of all members.
#[derive(Default)]
pub(crate) struct Taken<'a> {
    /// Permits of limiters that are not gates.
    pub(crate) held: OtherPermits<'a>,
    pub(crate) moments: Moments,
    /// The members with grants that no algorithm learns from.
    pub(crate) untimed: Set,
    /// The moments of grants that are not at the moment that was read.
    pub(crate) stamps: Vec<(usize, Stamp)>,
}

/// The moments of a decision, on the clock of each limiter.
#[derive(Default)]
pub(crate) struct Moments {
    one: Moment,
    each: Vec<Moment>,
    late: bool,
}

impl Moments {
    /// Reads the moments, once if there is one clock: then all grants are of the same instant, and can be undone
    /// exactly.
    #[inline]
    pub(crate) fn now<'a>(list: impl List<'a>, read: impl Fn(&Clock) -> Moment) -> Self {
        if list.local() == 0 {
            return Self::default();
        }
        if list.one_clock() {
            return Self {
                one: read(list.member(0).clock()),
                ..Self::default()
            };
        }
        let each = (0..list.local()).map(|index| read(list.member(index).clock()));
        Self {
            each: each.collect(),
            ..Self::default()
        }
    }

    /// The same, by readings that may be late.
    #[inline]
    fn late<'a>(list: impl List<'a>) -> Self {
        let late = true;
        let now = Self::now(list, Clock::now);
        Self { late, ..now }
    }

    #[inline]
    pub(crate) fn of(&self, index: usize) -> Moment {
        self.each.get(index).copied().unwrap_or(self.one)
    }

    /// Whether they may be late.
    #[inline]
    pub(super) fn are_late(&self) -> bool {
        self.late
    }
}

impl<'a> Taken<'a> {
    /// The moment of the grant of one member.
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

    /// Whether all grants are at the moment that was read, on one clock.
    #[inline]
    pub(crate) fn is_of_one_moment(&self) -> bool {
        self.moments.each.is_empty() && self.stamps.is_empty()
    }

    /// The permit of one member.
    pub(crate) fn permit(&mut self, list: impl List<'a>, index: usize) -> Option<Permit<'a>> {
        let demand = list.demand(index)?;
        match list.member(index).gate() {
            Some(gate) => {
                let grant = self.grant(index, demand);
                let era = self.stamp(index).era;
                Some(list.member(index).permit(gate, grant, era))
            }
            None => self.held.take(index),
        }
    }
}

/// The grants so far, undone when it is dropped: a rule may panic in the middle.
struct Undo<'t, 'a, L: List<'a>> {
    list: L,
    taken: &'t mut Taken<'a>,
    words: &'t mut Words,
}

/// The exchanged words, each with its member. Up to six are stored inline.
#[derive(Default)]
struct Words {
    taken: Set,
    few: [Exchange; 6],
    more: Vec<(usize, Exchange)>,
}

impl Words {
    #[inline]
    fn insert(&mut self, index: usize, exchange: Exchange) {
        self.taken.insert(index);
        match self.few.get_mut(index) {
            Some(place) => *place = exchange,
            None => self.more.push((index, exchange)),
        }
    }

    fn get(&self, index: usize) -> Option<Exchange> {
        if !self.taken.contains(index) {
            return None;
        }
        let more = || self.more.iter().find(|(of, _)| *of == index);
        let few = self.few.get(index).copied();
        few.or_else(|| more().map(|(_, exchange)| *exchange))
    }
}

impl<'a, L: List<'a>> Drop for Undo<'_, 'a, L> {
    fn drop(&mut self) {
        undo(self.list, self.taken, self.words);
    }
}

/// The reason for which nothing was taken.
enum Refused {
    /// The member that refused, and its refusal.
    By(usize, Option<Denied>),
    /// Perhaps only because the clock is late.
    Late,
}

/// Takes from all members that are not asked by their words; or from none, and returns the member that refused. With
/// `note` the refusal is counted and explained.
///
/// `taken` must be new. It is filled in place, because moving it takes longer than asking a limiter.
#[inline]
pub(crate) fn attempt<'a>(
    list: impl List<'a>,
    note: bool,
    taken: &mut Taken<'a>,
) -> Result<(), (usize, Option<Denied>)> {
    match take_words(list) {
        Ok(ByWords { now, untimed }) => {
            taken.moments.one = now;
            taken.untimed = Set::of_few(untimed);
            Ok(())
        }
        Err(open) => attempt_open(list, open, note, taken),
    }
}

/// The same for a list that [`take_words`] could not decide.
#[inline(never)]
pub(crate) fn attempt_open<'a>(
    list: impl List<'a>,
    open: Open,
    note: bool,
    taken: &mut Taken<'a>,
) -> Result<(), (usize, Option<Denied>)> {
    match open {
        Open::Refused(refused) => {
            return Err((refused.index, note.then(|| refused.note(list))));
        }
        Open::Each if !list.precise() => {
            taken.moments = Moments::late(list);
            match attempt_now(list, note, taken) {
                Ok(()) => return Ok(()),
                Err(Refused::By(index, denied)) => return Err((index, denied)),
                Err(Refused::Late) => {}
            }
        }
        Open::Each | Open::Late => {}
    }
    attempt_precisely(list, note, taken)
}

#[inline(never)]
fn attempt_precisely<'a>(
    list: impl List<'a>,
    note: bool,
    taken: &mut Taken<'a>,
) -> Result<(), (usize, Option<Denied>)> {
    taken.untimed = Set::default();
    taken.moments = Moments::now(list, Clock::precise_now);
    attempt_now(list, note, taken).map_err(|refused| match refused {
        Refused::By(index, denied) => (index, denied),
        Refused::Late => unreachable!("the moments are not late"),
    })
}

/// Takes from all members at the moments of `taken`.
#[inline]
fn attempt_now<'a>(list: impl List<'a>, note: bool, taken: &mut Taken<'a>) -> Result<(), Refused> {
    let mut words = Words::default();
    let mut parked = Set::default();
    let so_far = Undo {
        list,
        taken,
        words: &mut words,
    };
    for index in 0..list.local() {
        let Some(cost) = list.cost(index) else {
            continue;
        };
        let now = so_far.taken.moments.of(index);
        let refused = match (list.member(index).gate(), u64::try_from(cost)) {
            (Some(gate), Ok(cost)) => match gate.take_word(now, cost) {
                Word::Granted { timed, exchange } => {
                    so_far.words.insert(index, exchange);
                    if !timed {
                        so_far.taken.untimed.insert(index);
                    }
                    continue;
                }
                Word::Parked => {
                    parked.insert(index);
                    continue;
                }
                Word::Refused(refusal, word) => {
                    let late = so_far.taken.moments.are_late();
                    if late && gate.clock().refine(now, refusal.ready_at).is_some() {
                        return Err(Refused::Late);
                    }
                    Some((refusal, word))
                }
            },
            (None, Ok(_)) => match ask(list, index, note) {
                Ok(permit) => {
                    so_far.taken.held.push(index, permit);
                    continue;
                }
                Err(denied) => {
                    drop(so_far);
                    let denied = note.then(|| refuse(list, index, denied));
                    return Err(Refused::By(index, denied));
                }
            },
            (_, Err(_)) => None,
        };
        drop(so_far);
        let (index, denied) = refused_by_word(list, index, refused, now, &parked, note);
        return Err(Refused::By(index, denied));
    }
    if !parked.is_empty() {
        let moments = &so_far.taken.moments;
        match Transaction::new(list, &parked, moments, note).run() {
            TransactionOutcome::Taken(stamps) => so_far.taken.stamps = stamps,
            TransactionOutcome::Refused(index, denied) => {
                drop(so_far);
                let denied = denied.map(|denied| refuse(list, index, denied));
                return Err(Refused::By(index, denied));
            }
        }
    }
    let _complete = ManuallyDrop::new(so_far);
    Ok(())
}

fn ask<'a>(list: impl List<'a>, index: usize, note: bool) -> Result<Permit<'a>, Denied> {
    let limiter = list.member(index).limiter();
    let Some(demand) = list.demand(index) else {
        unreachable!("only those are asked of whom something is asked");
    };
    if note {
        limiter.try_acquire(demand)
    } else {
        limiter.attempt(demand)
    }
}

/// The first member in the order of the list that was asked and would refuse, and its refusal.
#[cold]
fn refused_by_word<'a>(
    list: impl List<'a>,
    index: usize,
    refused: Option<(crate::Refusal, u64)>,
    now: Moment,
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
        let (Some(gate), Some(demand)) = (list.member(before).gate(), list.demand(before)) else {
            continue;
        };
        let answer = if note {
            gate.note(demand)
        } else {
            gate.hint(demand)
        };
        if let Err(denied) = answer {
            return (before, note.then(|| refuse(list, before, denied)));
        }
    }
    let refused = ByWord::new(index, (refusal, word), now);
    (index, note.then(|| refused.note(list)))
}

/// Undoes all grants by words, and of members that are not gates. A panic in one of them does not prevent the others.
#[cold]
fn undo<'a>(list: impl List<'a>, taken: &mut Taken<'a>, words: &Words) {
    let mut panic = First::default();
    for index in (0..list.local()).rev() {
        if let Some(exchange) = words.get(index) {
            let at = (taken.moments.of(index), !taken.untimed.contains(index));
            if let Err(other) = isolated(|| undo_word(list, index, exchange, at)) {
                panic.keep(other);
            }
        }
    }
    if let Err(other) = isolated(|| taken.held.undo(list)) {
        panic.keep(other);
    }
    panic.resume();
}

/// The decision for each gate of a transaction.
pub(super) fn decision(refuser: Option<usize>, index: usize, note: bool) -> Decision {
    match refuser {
        None => Decision::Take,
        Some(refuser) if note && refuser == index => Decision::Note,
        Some(_) => Decision::Leave,
    }
}
