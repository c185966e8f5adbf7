//! Taking from a word, and putting exactly that back.

use crate::Rule;
use crate::gate::word::{Core, PARKED};
use crate::joint::{Exchange, Word};
use crate::sync::Ordering;
use crate::{Moment, Packed, PackedTake};

impl<R: Rule> Core<R> {
    /// Like [`take_by_word`](Self::take_by_word), but also returns the exchanged words.
    #[inline]
    pub(super) fn exchange_word(&self, now: Moment, cost: u64, timed: bool) -> Word {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            // In this order for the reasons of `take_by_word`.
            let epoch = self.epoch.load(Ordering::Acquire);
            if word & PARKED != 0 || now.as_nanos() >> self.epoch_bits != epoch {
                return Word::Parked;
            }
            match R::Fast::take_packed(&self.rule, word, now, cost) {
                PackedTake::Taken(next) => {
                    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                    let exchanged = self
                        .word
                        .compare_exchange_weak(word, next, success, failure);
                    match exchanged {
                        Ok(before) => {
                            self.totals.granted();
                            let after = next;
                            let exchange = Exchange {
                                before,
                                after,
                                epoch,
                            };
                            return Word::Granted { timed, exchange };
                        }
                        Err(other) => word = other,
                    }
                }
                PackedTake::Refused(refusal) => {
                    let current = self.word.load(Ordering::Acquire);
                    if current == word {
                        return Word::Refused(refusal, word);
                    }
                    word = current;
                }
                PackedTake::Unpackable => return Word::Parked,
            }
        }
    }

    /// Whether [`exchange_word`](Self::exchange_word) would grant.
    pub(super) fn word_grants(&self, now: Moment, cost: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        // A word read before the epoch changed is worthless, unless it is still there.
        word & PARKED == 0
            && now.as_nanos() >> self.epoch_bits == self.epoch.load(Ordering::Acquire)
            && matches!(
                R::Fast::take_packed(&self.rule, word, now, cost),
                PackedTake::Taken(_)
            )
            && self.word.load(Ordering::Acquire) == word
    }

    /// Restores the word as it was before the exchange, if no thread has changed it since. The state is then what it was: nothing has to be
    /// computed, which for a clock that is late would not be exact.
    pub(super) fn exchange_back(&self, exchange: Exchange) -> bool {
        let Exchange {
            before,
            after,
            epoch,
        } = exchange;
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let back = self.epoch.load(Ordering::Acquire) == epoch
            && self
                .word
                .compare_exchange(after, before, success, failure)
                .is_ok();
        if back {
            self.totals.not_granted();
        }
        back
    }
}
