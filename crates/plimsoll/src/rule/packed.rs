use super::{Refusal, Rule};
use crate::Moment;

/// The state of a rule as a single word, for the fast path of a limiter.
///
/// A state of 63 bits can be changed by one compare-and-exchange, without a lock. A rule with such a state implements
/// this trait, usually on itself, and names the implementation as its [`Rule::Fast`]; all others name [`Unpacked`]. The
/// choice affects only the speed, never the answers.
///
/// A word may omit bits that follow from the moment. It is read only at moments less than
/// 2^[`epoch_bits`](Self::epoch_bits) nanoseconds away from one at which it was written.
///
/// ```
/// use plimsoll::{Moment, Packed, PackedTake, TokenBucket};
/// # use plimsoll::Rule;
///
/// let (bucket, now) = (TokenBucket::per_second(2), Moment::ORIGIN);
/// let word = TokenBucket::pack(&bucket, &bucket.fresh(now), now).expect("small enough");
/// let PackedTake::Taken(word) = TokenBucket::take_packed(&bucket, word, now, 2) else {
///     panic!("the bucket starts full");
/// };
/// assert!(matches!(TokenBucket::take_packed(&bucket, word, now, 1), PackedTake::Refused(_)));
/// ```
pub trait Packed<R: Rule + ?Sized> {
    /// Whether no function of the rule, nor of its packed form, depends on the moment. The fast path of such a rule
    /// reads no clock.
    const TIMELESS: bool = false;

    /// Returns the word for `state`, below 2^63, if there is one. It must be valid at `now`, however old the state is.
    ///
    /// The word of a rule whose [permits are returned](Rule::RETURNS_PERMITS) must be a number to which the returned
    /// cost is added, and there is none while 2^41 or more is in use.
    fn pack(rule: &R, state: &R::State, now: Moment) -> Option<u64>;

    /// Returns the state with this word.
    fn unpack(rule: &R, word: u64, now: Moment) -> R::State;

    /// Takes `cost` from the word, as [`Rule::take`] does from the state. `cost` is at least 1.
    ///
    /// The take counts as made at `now`. Where the rule [records](Rule::recorded_at) another moment, the answer is
    /// [`Unpackable`](PackedTake::Unpackable).
    #[inline]
    fn take_packed(rule: &R, word: u64, now: Moment, cost: u64) -> PackedTake {
        let mut state = Self::unpack(rule, word, now);
        match rule.take(&mut state, now, cost) {
            // A grant can record another moment only on the slow path.
            Ok(()) if rule.recorded_at(&state, now) != now => PackedTake::Unpackable,
            Ok(()) => {
                Self::pack(rule, &state, now).map_or(PackedTake::Unpackable, PackedTake::Taken)
            }
            Err(refusal) => {
                let full_at = rule.full_at(&state, now);
                let full_at = full_at.map_or(Moment::NEVER, |at| at.max(now));
                PackedTake::Refused(refusal.with_full_at(full_at))
            }
        }
    }

    /// Returns how long a word is valid, as a power of two in nanoseconds.
    fn epoch_bits(rule: &R) -> u32 {
        let _ = rule;
        63
    }

    /// Like [`take_packed`](Self::take_packed), if the meaning of a word does not depend on the epoch, so that a word
    /// may be read at any moment; `None` if it does.
    #[doc(hidden)]
    #[inline(always)]
    fn take_whole(rule: &R, word: u64, now: Moment, cost: u64) -> Option<PackedTake> {
        Self::TIMELESS.then(|| Self::take_packed(rule, word, now, cost))
    }
}

/// The answer of [`Packed::take_packed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PackedTake {
    /// Taken; this is the new word.
    Taken(u64),
    /// Refused.
    Refused(Refusal),
    /// The new state has no word: the slow path decides.
    Unpackable,
}

/// The [`Rule::Fast`] of a rule with a state that never fits a word: every decision takes the lock of its limiter.
#[derive(Clone, Copy, Debug)]
pub enum Unpacked {}

impl<R: Rule + ?Sized> Packed<R> for Unpacked {
    #[inline]
    fn pack(_rule: &R, _state: &R::State, _now: Moment) -> Option<u64> {
        None
    }

    fn unpack(rule: &R, _word: u64, now: Moment) -> R::State {
        rule.fresh(now)
    }

    #[inline]
    fn take_packed(_rule: &R, _word: u64, _now: Moment, _cost: u64) -> PackedTake {
        PackedTake::Unpackable
    }
}
