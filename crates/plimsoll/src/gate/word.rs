//! Asking fast: the state of a gate in one word.
//!
//! # Fast path and slow path
//!
//! Most of the time no demand waits, and the state fits a word: a decision is one load, some arithmetic
//! and one compare-and-exchange. Everything else happens behind the lock: waiting, serving, closing,
//! resizing, reserving. A thread that needs the lock first *parks* the word, that is, swaps a mark into
//! it and moves the state behind the lock. As long as the mark is there, all other threads take the lock
//! too, so a queue is never overtaken. When no demand waits any more, the state goes back into the word.
//!
//! # Returning
//!
//! A permit is returned by adding to the word. If the word turns out to have been parked, the
//! addition went into the mark, where it means nothing, and is repeated behind the lock: on the state
//! if it is there, on the word if the state has gone back in the meantime. The mark has room for more
//! additions than there can be threads.
//!
//! # Epochs
//!
//! A word may keep only the low bits of a moment. It is valid for a span of time, the epoch, after which the next
//! thread refreshes it under the lock. For common limits an epoch lasts for years, and the word of the most common one,
//! a bucket with tokens whole nanoseconds apart, has no epoch at all.

use std::panic::resume_unwind;
use std::sync::{Arc, Weak};

use super::handed::Handed;
use super::locked::Inside;
use crate::clock::Clock;
use crate::name::Name;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, OwnLine, lock};
use crate::totals::Totals;
use crate::unwind::isolated;
use crate::{Demand, Denied, Grant, Moment, Packed, PackedTake, Reason, Refusal, Rule};

/// Set in a word that holds no state.
pub(super) const PARKED: u64 = 1 << 63;
/// A parked word, with room above and below for additions to a parked word.
pub(super) const MARK: u64 = PARKED | 1 << 62;

/// The bits of a cost that are added to a word. A word has no room for a higher cost while its permit is out, so the
/// state is behind the lock then; and the mark has room for these bits of as many costs as there can be threads.
pub(super) const RETURNED: u64 = (1 << 41) - 1;

/// When this amount has been added to a parked word, the mark is renewed. A limiter with a queue that never empties may reach
/// it after years.
pub(super) const STRAY: u64 = 1 << 60;

pub(crate) struct Core<R: Rule> {
    pub(super) word: OwnLine<AtomicU64>,
    /// The number of the epoch in which the word is valid.
    pub(super) epoch: AtomicU64,
    pub(super) epoch_bits: u8,
    pub(super) rule: R,
    pub(super) clock: Clock,
    pub(super) totals: Totals,
    pub(super) name: Option<Name>,
    /// Set when the gate is closed, for checks without the lock.
    pub(super) closed: AtomicBool,
    /// Whether the queue has no time-out.
    pub(super) patient: AtomicBool,
    /// Which waiters were handed a permit and may not know yet.
    pub(super) handed: Handed,
    pub(super) inside: Mutex<Inside<R>>,
}

/// The result of the fast path.
pub(super) enum ByWord {
    Granted,
    /// Refused, by this word.
    Refused(Refusal, u64),
    /// The fast path is closed.
    Parked,
}

/// The additional fields of a refusal of more than 1.
struct Larger {
    remaining: u64,
    /// If the cost is above the limit: when all is available again.
    too_large: Option<Moment>,
}

/// What is left to be decided after the fast path.
#[derive(Clone, Copy)]
pub(super) enum Open {
    /// Everything: the fast path was closed. `timed` says whether the clock was read.
    Parked { timed: bool },
    /// The same decision again, by the precise time: the fast path refused because the clock is late.
    Again,
}

impl<R: Rule> Core<R> {
    pub(super) fn new(
        mut rule: R,
        began: Option<Moment>,
        clock: Clock,
        totals: Totals,
        name: Option<Name>,
        inside: Inside<R>,
    ) -> Arc<Self> {
        let now = if R::Fast::TIMELESS {
            clock.now()
        } else {
            clock.precise_now()
        };
        rule.begin(began.map_or(now, |began| began.min(now)));
        let state = match began {
            Some(_) => rule.fresh_key(now),
            None => rule.fresh(now),
        };
        Self::resumed(rule, state, now, clock, totals, name, inside)
    }

    /// Creates a core that continues from a state.
    pub(super) fn resumed(
        rule: R,
        state: R::State,
        now: Moment,
        clock: Clock,
        totals: Totals,
        name: Option<Name>,
        mut inside: Inside<R>,
    ) -> Arc<Self> {
        let word = match inside.resets.hold(now) {
            true => None,
            false => R::Fast::pack(&rule, &state, now),
        };
        if word.is_none() {
            inside.state = Some(state);
        }
        // At most 63.
        let epoch_bits = u8::try_from(R::Fast::epoch_bits(&rule))
            .unwrap_or(63)
            .min(63);
        Arc::new_cyclic(|me| {
            inside.me = Weak::clone(me);
            Self {
                word: OwnLine(AtomicU64::new(word.unwrap_or(MARK))),
                epoch: AtomicU64::new(now.as_nanos() >> epoch_bits),
                epoch_bits,
                rule,
                clock,
                totals,
                name,
                closed: AtomicBool::new(false),
                patient: AtomicBool::new(inside.queue.is_none_or(|queue| queue.timeout.is_none())),
                handed: Handed::default(),
                inside: Mutex::new(inside),
            }
        })
    }

    /// Decides by the word alone, if the state is there. `cost` is at least 1.
    #[inline(always)]
    pub(super) fn take_by_word(&self, now: Moment, cost: u64) -> ByWord {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & PARKED != 0 {
                return ByWord::Parked;
            }
            let take = match R::Fast::take_whole(&self.rule, word, now, cost) {
                Some(PackedTake::Refused(refusal)) => return ByWord::Refused(refusal, word),
                Some(take) => take,
                None if self.is_epoch_of(now) => R::Fast::take_packed(&self.rule, word, now, cost),
                None => return ByWord::Parked,
            };
            let next = match take {
                PackedTake::Taken(next) => next,
                PackedTake::Refused(refusal) => {
                    // A word read before the epoch changed is worthless: only an exchange notices that by itself.
                    let current = self.word.load(Ordering::Acquire);
                    if current == word {
                        return ByWord::Refused(refusal, word);
                    }
                    word = current;
                    continue;
                }
                PackedTake::Unpackable => return ByWord::Parked,
            };
            let exchanged =
                self.word
                    .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire);
            match exchanged {
                Ok(_) => return ByWord::Granted,
                Err(other) => word = other,
            }
        }
    }

    /// Whether words are valid in the epoch of `now`.
    ///
    /// To be called after the word was read, so that a word of a later epoch is noticed.
    #[inline(always)]
    fn is_epoch_of(&self, now: Moment) -> bool {
        // Acquired, so that a thread that sees a later epoch cannot read the same word again.
        R::Fast::TIMELESS || now.as_nanos() >> self.epoch_bits == self.epoch.load(Ordering::Acquire)
    }

    /// Whether the fast path is closed.
    pub(super) fn is_parked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & PARKED != 0
    }

    /// The precise moment, for a demand that is refused at `now`, if enough may be available by then.
    #[inline(always)]
    pub(super) fn refine(&self, now: Moment, refusal: Refusal) -> Option<Moment> {
        if R::RETURNS_PERMITS {
            return None;
        }
        self.clock.refine(now, refusal.ready_at)
    }

    /// Takes the state out of the word.
    pub(super) fn park(&self, now: Moment) -> R::State {
        let word = self.word.swap(MARK, Ordering::AcqRel);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let current = now.as_nanos() >> self.epoch_bits;
        if word & PARKED != 0 {
            // A rule that panicked took its state with it.
            return self.rule.fresh(now);
        }
        let near = if current == epoch {
            now
        } else {
            Moment::from_nanos(epoch << self.epoch_bits)
        };
        isolated(|| R::Fast::unpack(&self.rule, word, near)).unwrap_or_else(|panic| {
            // A state that is not behind the lock must be in the word, or everything that was taken would be free
            // again.
            self.word.swap(word, Ordering::AcqRel);
            resume_unwind(panic)
        })
    }

    /// The same by the word alone.
    #[inline(always)]
    pub(super) fn attempt_by_word(&self, demand: Demand) -> Option<Grant> {
        let (now, timed) = self.start();
        if demand.cost > 0 && matches!(self.take_by_word(now, demand.cost), ByWord::Granted) {
            self.totals.granted();
            return Some(Grant {
                timed,
                ..demand.granted(now)
            });
        }
        None
    }

    /// Counts a refusal of the fast path, and makes its error.
    ///
    /// Inlined, so that a caller that does not read the refusal does not pay for it.
    #[inline(always)]
    pub(super) fn denied_by_word(
        &self,
        refusal: Refusal,
        word: u64,
        now: Moment,
        cost: u64,
    ) -> Denied {
        self.totals.denied();
        let (mut refusal, mut remaining) = (refusal, 0);
        // If a cost of 1 is refused, nothing is available.
        if cost > 1 {
            let larger = self.larger(word, now, cost);
            remaining = larger.remaining;
            if let Some(full_at) = larger.too_large {
                refusal = Refusal::until_returned().with_reason(Reason::TooLarge);
                refusal.full_at = full_at;
            }
        }
        if refusal.reason != Reason::TooLarge {
            self.note_turned_away(now);
        }
        Denied::from_rule(refusal, now, (self.rule.limit(), remaining), self.name)
    }

    /// What a refusal of more than 1 reports in addition. Called with numbers and without the refusal: what is passed
    /// to a function by reference has to be in memory, and is copied from there more slowly than it is computed.
    #[inline(never)]
    fn larger(&self, word: u64, now: Moment, cost: u64) -> Larger {
        let state = R::Fast::unpack(&self.rule, word, now);
        if cost > self.rule.limit() {
            let full_at = self.rule.full_at(&state, now);
            return Larger {
                remaining: self.rule.remaining(&state, now),
                too_large: Some(full_at.map_or(Moment::NEVER, |at| at.max(now))),
            };
        }
        Larger {
            remaining: self.rule.available(&state, now),
            too_large: None,
        }
    }

    #[inline]
    fn note_turned_away(&self, now: Moment) {
        if let Some(learning) = self.rule.learning() {
            learning.refused();
            self.tick_if_due(now);
        }
    }

    /// The state, if it is in the word and the word is of this epoch.
    pub(super) fn state_by_word(&self, now: Moment) -> Option<R::State> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & PARKED != 0 || !self.is_epoch_of(now) {
                return None;
            }
            // As for a refusal: a word read before the epoch changed is worthless.
            let current = self.word.load(Ordering::Acquire);
            if current == word {
                return Some(R::Fast::unpack(&self.rule, word, now));
            }
            word = current;
        }
    }

    /// The state in the word, for a thread that holds the lock and has found no state behind it.
    pub(super) fn unparked(&self, now: Moment) -> R::State {
        let word = self.word.load(Ordering::Acquire);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let near = if now.as_nanos() >> self.epoch_bits == epoch {
            now
        } else {
            Moment::from_nanos(epoch << self.epoch_bits)
        };
        R::Fast::unpack(&self.rule, word, near)
    }
}

impl<R: Rule> Drop for Core<R> {
    fn drop(&mut self) {
        if let Some(alarm) = lock(&self.inside).alarm.id.take() {
            self.clock.release(alarm);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::size_of;

    use super::{AtomicU64, Core, Handed, Inside, Mutex, OwnLine};
    use crate::{Concurrency, FixedWindow, Rule, SlidingWindow, TokenBucket};

    /// The size without the cache line of the word and the fields left out, rounded up to whole lines.
    fn without_queue<R: Rule>() -> usize {
        let word = size_of::<OwnLine<AtomicU64>>();
        size_of::<Core<R>>() - word - size_of::<Mutex<Inside<R>>>() - size_of::<Handed>()
    }

    #[test]
    fn a_limiter_fits_two_cache_lines_without_its_word_and_its_queue() {
        let sizes = [
            without_queue::<TokenBucket>(),
            without_queue::<FixedWindow>(),
            without_queue::<SlidingWindow>(),
            without_queue::<Concurrency>(),
        ];
        // The last line is shared with nothing.
        assert!(sizes.iter().all(|size| *size < 128 + 64), "{sizes:?}");
    }
}
