//! The arithmetic of a bucket that takes over from another, compared with fractions.

use std::time::Duration;

use plimsoll::{Carry, Moment, Quota, Rule, TokenBucket};
use proptest::prelude::*;

use crate::every_rule::many_cases;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    greedy: bool,
    burst: u64,
    refill: u64,
    every: u64,
}

impl Bucket {
    fn rule(self) -> TokenBucket {
        let quota = Quota::new(self.refill, Duration::from_nanos(self.every));
        let bucket = if self.greedy {
            TokenBucket::greedy(quota)
        } else {
            TokenBucket::interval(quota)
        };
        bucket.burst(self.burst)
    }

    /// What a nanosecond brings and a token costs, without a common divisor.
    fn scale(self) -> (i128, i128) {
        let (mut a, mut b) = (i128::from(self.refill), i128::from(self.every));
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (i128::from(self.refill) / a, i128::from(self.every) / a)
    }

    /// What has come after so long, over the second number.
    fn supplied(self, nanos: u64) -> (i128, i128) {
        if self.greedy {
            let (supply, token) = self.scale();
            (i128::from(nanos) * supply, token)
        } else {
            (i128::from(nanos / self.every) * i128::from(self.refill), 1)
        }
    }
}

fn bucket() -> impl Strategy<Value = Bucket> {
    let size = || prop_oneof![1..20_u64, 1..1_000_000_u64];
    let every = prop_oneof![1..20_u64, Just(1_000_000_007), 1..1_u64 << 40];
    (any::<bool>(), size(), size(), every).prop_map(|(greedy, burst, refill, every)| Bucket {
        greedy,
        burst,
        refill,
        every,
    })
}

proptest! {
    #![proptest_config(many_cases())]

    #[test]
    fn a_bucket_carries_over_exactly(
        old in bucket(), new in bucket(), charged in prop_oneof![0..30_u64, 0..2_000_000_u64],
        waited in prop_oneof![0..50_u64, 0..1_u64 << 40], cost in any::<u64>(), which in 0..4_usize,
    ) {
        let carry = [Carry::Used, Carry::AsIs, Carry::Proportional, Carry::Reset][which];
        let (mut before, mut after) = (old.rule(), new.rule());
        let mut state = before.fresh(Moment::ORIGIN);
        before.begin(Moment::ORIGIN);
        before.charge(&mut state, Moment::ORIGIN, charged);
        let now = Moment::from_nanos(waited);
        after.begin(now);
        let state = after.adopt(&before, &state, now, carry);

        // Held tokens as a fraction.
        let (burst, new_burst) = (i128::from(old.burst), i128::from(new.burst));
        let (supplied, over) = old.supplied(waited);
        let held = ((burst - i128::from(charged)) * over + supplied).min(burst * over);
        // What is held then, in parts of a token that the new bucket knows, and no more than it can hold.
        let parts = if new.greedy { new.scale().1 } else { 1 };
        let floor = |a: i128, b: i128| a.div_euclid(b);
        let held = match carry {
            Carry::Reset => new_burst * parts,
            Carry::AsIs => floor(held * parts, over),
            Carry::Proportional => floor(held * new_burst * parts, over * burst),
            Carry::Used => floor((held + (new_burst - burst) * over) * parts, over),
            other => panic!("a law for {other:?}"),
        };
        let held = held.min(new_burst * parts);
        let left = u64::try_from((held / parts).max(0)).unwrap();
        prop_assert_eq!(after.available(&state, now), left);

        let cost = 1 + cost % new.burst;
        let ready_at = match after.peek(&state, now, cost) {
            Ok(()) => now,
            Err(refusal) => match refusal.ready_at() {
                Some(ready_at) => ready_at,
                None => return Ok(()), // Not in the next 584 years.
            },
        };
        // The first nanosecond at which it is there.
        let there = |at: u64| held + new.supplied(at - waited).0 >= i128::from(cost) * parts;
        let at = ready_at.as_nanos();
        prop_assert!(there(at), "too early");
        prop_assert!(at == waited || !there(at - 1), "too late");
    }
}

#[test]
fn half_a_token_survives_the_change_from_interval_to_greedy() {
    // The proportion was taken on the scale of the old bucket, which knew whole tokens only.
    let mut old = TokenBucket::interval(Quota::per_second(2));
    old.begin(Moment::ORIGIN);
    let mut state = old.fresh(Moment::ORIGIN);
    old.charge(&mut state, Moment::ORIGIN, 1);
    let mut new = TokenBucket::per_second(1).burst(5);
    new.begin(Moment::ORIGIN);
    let state = new.adopt(&old, &state, Moment::ORIGIN, Carry::Proportional);
    assert_eq!(new.available(&state, Moment::ORIGIN), 2);
    let third = new.peek(&state, Moment::ORIGIN, 3).unwrap_err();
    assert_eq!(third.ready_at(), Some(Moment::from_nanos(500_000_000)));
}
