//! Taking by words alone, the path of most requests.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use super::{List, refuse};
use crate::joint::{Exchange, Word};
use crate::unwind::{First, isolated};
use crate::{Denied, Grant, Moment, Refusal};

/// The maximum number of gates.
pub(super) const MOST: usize = 4;

/// Grants by words alone.
#[derive(Clone, Copy)]
pub(crate) struct ByWords {
    pub(crate) now: Moment,
    /// The members with grants that no algorithm learns from, as bits.
    pub(crate) untimed: u64,
}

/// A refusal by a word.
#[derive(Clone, Copy)]
pub(crate) struct ByWord {
    pub(crate) index: usize,
    refusal: Refusal,
    word: u64,
    now: Moment,
}

impl ByWord {
    pub(super) fn new(index: usize, (refusal, word): (Refusal, u64), now: Moment) -> Self {
        Self {
            index,
            refusal,
            word,
            now,
        }
    }

    /// Counts and explains it.
    #[cold]
    pub(crate) fn note<'a>(self, list: impl List<'a>) -> Denied {
        let index = self.index;
        let (Some(gate), Some(demand)) = (list.member(index).gate(), list.demand(index)) else {
            unreachable!("a word is that of a gate");
        };
        let denied = gate.note_word(self.refusal, self.word, self.now, demand.cost);
        refuse(list, index, denied)
    }
}

/// The reason for which nothing was taken by words alone.
#[derive(Clone, Copy)]
pub(crate) enum Open {
    /// A member refuses, by its word.
    Refused(ByWord),
    /// A member refuses, perhaps only because the clock is late.
    Late,
    /// A member has to be asked in another way.
    Each,
}

/// Takes from all members by their words, at one moment. If one of them does not grant, nothing is taken, and
/// [`attempt_open`](super::attempt_open) decides.
#[inline(always)]
pub(crate) fn take_words<'a>(list: impl List<'a>) -> Result<ByWords, Open> {
    if !list.is_few_words() {
        return Err(Open::Each);
    }
    let now = list.member(0).clock().now();
    let mut so_far = Undo {
        list,
        taken: ByWords { now, untimed: 0 },
        words: 0,
        exchanges: [Exchange::default(); MOST],
        lent: PhantomData,
    };
    for index in 0..list.local().min(MOST) {
        let Some(cost) = list.cost(index) else {
            continue;
        };
        let (Some(gate), Ok(cost)) = (list.member(index).gate(), u64::try_from(cost)) else {
            return Err(Open::Each);
        };
        match gate.take_word(now, cost) {
            Word::Granted { timed, exchange } => {
                so_far.exchanges[index] = exchange;
                so_far.words |= 1 << index;
                so_far.taken.untimed |= u64::from(!timed) << index;
            }
            Word::Parked => return Err(Open::Each),
            Word::Refused(refusal, _) if gate.clock().refine(now, refusal.ready_at).is_some() => {
                return Err(Open::Late);
            }
            Word::Refused(refusal, word) => {
                return Err(Open::Refused(ByWord::new(index, (refusal, word), now)));
            }
        }
    }
    Ok(ManuallyDrop::new(so_far).taken)
}

/// The grants so far, undone when it is dropped: a member may refuse, or a rule panic.
struct Undo<'a, L: List<'a>> {
    list: L,
    taken: ByWords,
    /// The members that were taken from, as bits.
    words: u64,
    exchanges: [Exchange; MOST],
    lent: PhantomData<&'a ()>,
}

impl<'a, L: List<'a>> Drop for Undo<'a, L> {
    #[cold]
    fn drop(&mut self) {
        let mut panic = First::default();
        for index in (0..MOST).rev() {
            if self.words >> index & 1 == 0 {
                continue;
            }
            let timed = self.taken.untimed >> index & 1 == 0;
            let (exchange, now) = (self.exchanges[index], self.taken.now);
            if let Err(other) = isolated(|| undo_word(self.list, index, exchange, (now, timed))) {
                panic.keep(other);
            }
        }
        panic.resume();
    }
}

/// Undoes the take from one member by its word, at `now`.
pub(super) fn undo_word<'a>(
    list: impl List<'a>,
    index: usize,
    exchange: Exchange,
    (now, timed): (Moment, bool),
) {
    if let (Some(gate), Some(demand)) = (list.member(index).gate(), list.demand(index)) {
        let grant = Grant {
            timed,
            ..demand.granted(now)
        };
        gate.undo_word(exchange, grant);
    }
}
