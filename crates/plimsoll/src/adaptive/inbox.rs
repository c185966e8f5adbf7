//! Samples that wait for the thread that runs the algorithm.

use super::Sample;
use crate::Moment;
use crate::sync::{AtomicU64, Ordering};

/// A bounded queue with many producers and one consumer at a time.
///
/// A sample is four words, so a place consists of plain atomics. Neither side ever waits for the other: the consumer
/// stops at a place that is claimed but not yet filled, and the thread that fills it then takes the samples.
pub(super) struct Inbox {
    places: Box<[Place; PLACES]>,
    /// The number of places claimed so far.
    claimed: AtomicU64,
    /// The number of samples taken so far.
    taken: AtomicU64,
}

/// The capacity of the inbox; further samples are lost.
#[cfg(not(loom))]
pub(super) const PLACES: usize = 64;
#[cfg(loom)]
pub(super) const PLACES: usize = 2;

#[derive(Default)]
struct Place {
    /// One more than the number of the claim that this sample belongs to.
    filled: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    in_flight: AtomicU64,
    rest: AtomicU64,
}

/// The weight is in the low half.
const OVERLOAD: u64 = 1 << 32;
const REFUSED: u64 = 1 << 33;

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            places: Box::new(std::array::from_fn(|_| Place::default())),
            claimed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn place(&self, claim: u64) -> &Place {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the number of places"
        )]
        let index = (claim % PLACES as u64) as usize;
        &self.places[index]
    }

    /// Stores `sample`. Returns false if there is no room.
    pub(super) fn put(&self, sample: &Sample) -> bool {
        let mut claim = self.claimed.load(Ordering::Relaxed);
        loop {
            // Acquired, so that the sample that the place held has been read. May be ahead of an old claim.
            let taken = self.taken.load(Ordering::Acquire);
            if claim.saturating_sub(taken) >= PLACES as u64 {
                return false;
            }
            let claimed = self.claimed.compare_exchange_weak(
                claim,
                claim + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match claimed {
                Ok(_) => break,
                Err(other) => claim = other,
            }
        }
        let place = self.place(claim);
        let flag = |set, flag| if set { flag } else { 0 };
        let rest = u64::from(sample.weight)
            | flag(sample.overload, OVERLOAD)
            | flag(sample.refused, REFUSED);
        place
            .start
            .store(sample.start.as_nanos(), Ordering::Relaxed);
        place.end.store(sample.end.as_nanos(), Ordering::Relaxed);
        place.in_flight.store(sample.in_flight, Ordering::Relaxed);
        place.rest.store(rest, Ordering::Relaxed);
        place.filled.store(claim + 1, Ordering::Release);
        true
    }

    /// Whether no sample can be taken.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        self.claimed.load(Ordering::Acquire) == taken
            || self.place(taken).filled.load(Ordering::Acquire) != taken + 1
    }

    /// Takes the oldest sample. Call it from one thread at a time, under a lock.
    pub(super) fn take(&self) -> Option<Sample> {
        let taken = self.taken.load(Ordering::Relaxed);
        let place = self.place(taken);
        if place.filled.load(Ordering::Acquire) != taken + 1 {
            return None;
        }
        let moment = |word: &AtomicU64| Moment::from_nanos(word.load(Ordering::Relaxed));
        let rest = place.rest.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the low half")]
        let weight = rest as u32;
        let sample = Sample {
            start: moment(&place.start),
            end: moment(&place.end),
            in_flight: place.in_flight.load(Ordering::Relaxed),
            overload: rest & OVERLOAD != 0,
            refused: rest & REFUSED != 0,
            weight,
        };
        self.taken.store(taken + 1, Ordering::Release);
        Some(sample)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Inbox, PLACES};
    use crate::Moment;
    use crate::adaptive::Sample;

    fn sample(number: u32) -> Sample {
        Sample {
            start: Moment::from_nanos(u64::from(number)),
            end: Moment::from_nanos(u64::MAX - u64::from(number)),
            in_flight: u64::MAX - u64::from(number),
            overload: number.is_multiple_of(2),
            refused: number.is_multiple_of(3),
            weight: u32::MAX - number,
        }
    }

    #[test]
    fn what_is_put_in_comes_out_in_order_and_not_more_than_fits() {
        let inbox = Inbox::new();
        for first in [0, 100, 200] {
            assert!(inbox.is_empty());
            let numbers = first..first + 100;
            let fit = numbers.clone().filter(|number| inbox.put(&sample(*number)));
            assert_eq!(fit.count(), PLACES);
            for number in numbers.take(PLACES) {
                assert!(!inbox.is_empty());
                assert_eq!(inbox.take(), Some(sample(number)));
            }
            assert_eq!(inbox.take(), None);
            // At another place of the ring in each round.
            assert!(inbox.put(&sample(7)));
            assert_eq!(inbox.take(), Some(sample(7)));
        }
    }
}
