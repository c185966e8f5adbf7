//! Every rule at the ends of time and of numbers: it may say never, but it does not fall over.

use plimsoll::{Carry, Moment, Packed, Rule};
use proptest::prelude::*;

use crate::every_rule::{Law, many_cases, params_of};

/// Moments that are near an end, or anywhere.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => (0..5_u64).prop_map(|back| u64::MAX - back),
        1 => 0..5_u64,
        1 => Just(1 << 62),
        1 => Just(1 << 63),
        1 => any::<u64>(),
    ]
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1), Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()]
}

struct Survives<'a> {
    start: u64,
    steps: &'a [(u8, u64, u64)],
}

impl Law for Survives<'_> {
    fn check<R: Rule + Clone>(&mut self, mut rule: R) {
        rule.begin(Moment::from_nanos(self.start));
        let mut state = rule.fresh_key(Moment::from_nanos(self.start));
        let mut taken = (Moment::from_nanos(self.start), 1);
        for &(what, nanos, cost) in self.steps {
            let now = Moment::from_nanos(nanos);
            match what {
                0 | 1 => {
                    let cost = cost.min(rule.limit()).max(1);
                    match rule.take(&mut state, now, cost) {
                        Ok(()) => taken = (rule.recorded_at(&state, now), cost),
                        Err(refusal) => drop(rule.refused(&mut state, now, cost, refusal)),
                    }
                }
                2 => {
                    if let Some((booked, _)) = rule.book(&state, now, cost) {
                        state = booked;
                    }
                }
                3 => rule.charge(&mut state, now, cost),
                4 => rule.add(&mut state, now, cost),
                5 => rule.refund(&mut state, now.max(taken.0), taken.0, taken.1),
                6 => drop(rule.peek(&state, now, cost)),
                7 => state = rule.fresh(now),
                8 => state = rule.fresh_key(now),
                _ => {
                    let carries = [Carry::AsIs, Carry::Used, Carry::Proportional, Carry::Reset];
                    let old = rule.clone();
                    rule.begin(now);
                    state = rule.adopt(&old, &state, now, carries[usize::from(what) % 4]);
                }
            }
            let word = R::Fast::pack(&rule, &state, now);
            if let Some(word) = word {
                let unpacked = R::Fast::unpack(&rule, word, now);
                assert_eq!(rule.available(&unpacked, now), rule.available(&state, now));
                let _taken = R::Fast::take_packed(&rule, word, now, cost.max(1));
            }
            assert!(rule.available(&state, now) <= rule.limit());
            let _looked = (rule.in_use(&state, now), rule.full_at(&state, now));
            let _looked = (
                rule.evictable_from(&state, now),
                rule.overflows_from(&state, now),
            );
            let _looked = rule.window(now);
        }
    }
}

proptest! {
    #![proptest_config(many_cases())]

    #[test]
    fn no_rule_falls_over_at_the_end_of_time(
        params in params_of(
            prop_oneof![Just(1), 1..9_u64, Just(u64::MAX), Just(u64::MAX - 1)],
            prop_oneof![Just(1), 1..9_u64, Just(1_000_000_000), Just(1 << 62), Just((1 << 62) - 1)],
        ),
        start in prop_oneof![3 => Just(0), 1 => nanos()],
        steps in proptest::collection::vec((0..13_u8, nanos(), cost()), 1..20),
    ) {
        params.obey(&mut Survives { start, steps: &steps });
    }
}
