//! A bucket in a word.

use super::super::arithmetic::bits;
use super::{Filling, REACH, Supply, TokenBucket};
use crate::{Moment, Packed, PackedTake, Refusal};

/// The bits of the point that a word keeps.
const KEPT: u32 = 63;
const MASK: u64 = (1 << KEPT) - 1;

/// The supply that is missing for a grant.
struct Short {
    /// The supply that the cost lacks.
    lacking: u64,
    /// The supply that a full bucket lacks.
    missing: u64,
}

impl TokenBucket {
    /// Takes from a word of [whole nanoseconds](Supply::Nanos), which is all of the point and not only its low bits.
    ///
    /// The most common supply has a path of its own: a grant takes the fewest instructions possible, and a refusal
    /// needs no division.
    #[inline(always)]
    fn take_nanos(&self, word: u64, now: Moment, price: u64) -> PackedTake {
        let elapsed = now.nanos_since(self.origin);
        // All of the sums below are below 2^64: the word is below 2^63, a price and the whole bucket are below `REACH`.
        let missing = word.saturating_sub(elapsed);
        let wanted = missing + price;
        if wanted > self.short_capacity {
            let lacking = wanted - self.short_capacity;
            let refusal = Refusal::until(now.plus_nanos(lacking));
            return PackedTake::Refused(refusal.with_full_at(now.plus_nanos(missing)));
        }
        // Not computed from `missing`: the exchange then waits for less of the arithmetic.
        let next = word.max(elapsed).wrapping_add(price);
        if (elapsed | next) > MASK {
            // Only after centuries.
            return PackedTake::Unpackable;
        }
        PackedTake::Taken(next)
    }

    /// Moves the point in a word away by `price`, if the bucket holds that.
    #[inline(always)]
    fn take_point(&self, word: u64, supply: u64, price: u64) -> Result<u64, Short> {
        // The distance from the supply to the point, as a signed number whose lowest bit means nothing.
        let ahead = (word.wrapping_sub(supply) << (64 - KEPT)).cast_signed();
        let missing = ahead.max(0).cast_unsigned() >> (64 - KEPT);
        let wanted = missing + price;
        if wanted > self.short_capacity {
            let lacking = wanted - self.short_capacity;
            return Err(Short { lacking, missing });
        }
        // Not computed from `missing`: the exchange then waits for less of the arithmetic.
        let point = if ahead > 0 { word } else { supply };
        Ok(point.wrapping_add(price) & MASK)
    }
}

impl Packed<Self> for TokenBucket {
    #[inline]
    fn pack(rule: &Self, state: &Filling, now: Moment) -> Option<u64> {
        let supply = rule.supply(rule.origin, now);
        let in_reach = match rule.supply {
            Supply::Nanos { .. } => state.full.max(supply) <= u128::from(MASK),
            _ => state.full.saturating_sub(supply) < REACH,
        };
        let packable = state.origin == rule.origin && rule.short_capacity > 0 && in_reach;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits are kept"
        )]
        let word = state.full.max(supply) as u64 & MASK;
        packable.then_some(word)
    }

    #[inline]
    fn unpack(rule: &Self, word: u64, now: Moment) -> Filling {
        if let Supply::Nanos { .. } = rule.supply {
            return Filling {
                full: word.into(),
                origin: rule.origin,
            };
        }
        let supply = rule.supply(rule.origin, now);
        // The distance from the supply to the point, as a signed number of `KEPT` bits.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits are kept"
        )]
        let low = supply as u64;
        let ahead = (word.wrapping_sub(low) << (64 - KEPT)).cast_signed() >> (64 - KEPT);
        Filling {
            full: supply.saturating_add_signed(i128::from(ahead)),
            origin: rule.origin,
        }
    }

    #[inline(always)]
    fn take_packed(rule: &Self, word: u64, now: Moment, cost: u64) -> PackedTake {
        if let Some(take) = Self::take_whole(rule, word, now, cost) {
            return take;
        }
        // As in `take_whole`.
        if cost > rule.burst {
            return PackedTake::Unpackable;
        }
        let elapsed = now.nanos_since(rule.origin);
        let (supply, price, index) = match rule.supply {
            Supply::Nanos { token } => (elapsed, cost * token, 0),
            Supply::Greedy { token, per_nano } => (elapsed.wrapping_mul(per_nano), cost * token, 0),
            Supply::Interval { period, refill } => {
                let index = period.index(elapsed);
                (index.wrapping_mul(refill), cost, index)
            }
        };
        let Short { lacking, missing } = match rule.take_point(word, supply, price) {
            Ok(next) => return PackedTake::Taken(next),
            Err(short) => short,
        };
        let supplied = |amount: u64| match rule.supply {
            Supply::Nanos { .. } => now.plus_nanos(amount),
            Supply::Greedy { per_nano, .. } => now.plus_nanos(amount.div_ceil(per_nano)),
            Supply::Interval { period, refill } => {
                let index = index.saturating_add(amount.div_ceil(refill));
                period.start(rule.origin, index)
            }
        };
        PackedTake::Refused(Refusal::until(supplied(lacking)).with_full_at(supplied(missing)))
    }

    #[inline(always)]
    fn take_whole(rule: &Self, word: u64, now: Moment, cost: u64) -> Option<PackedTake> {
        let Supply::Nanos { token } = rule.supply else {
            return None;
        };
        // A bucket that is too deep has no word, so the price of the burst fits 64 bits, and so does that of this cost.
        Some(if cost > rule.burst {
            PackedTake::Unpackable
        } else {
            rule.take_nanos(word, now, cost * token)
        })
    }

    fn epoch_bits(rule: &Self) -> u32 {
        // The supply must not grow by more than 2^59 in an epoch.
        match rule.supply {
            Supply::Nanos { .. } => 63,
            Supply::Greedy { per_nano, .. } => 58_u32.saturating_sub(bits(per_nano)),
            // By `refill` once in each period, and perhaps once more.
            Supply::Interval { period, refill } => match 58_u32.checked_sub(bits(refill)) {
                None | Some(0) => 0,
                Some(periods) => (periods + period.nanos().ilog2()).min(62),
            },
        }
    }
}
