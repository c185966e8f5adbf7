//! The rules themselves beside the naive ones, on a clock that also steps back: gates never see one, but two threads
//! may read the time in one order and take in the other.

use plimsoll::{Gate, Moment};
use proptest::prelude::*;

use crate::kinds::{Described, Subject, WithRule, alteration, altered, carry, real_carry};
use crate::kinds::{spec, with_rule};
use crate::reference::{self, Bucket, Carry, Nanos, Spec};

#[derive(Clone, Copy, Debug)]
enum Op {
    Wait(u64, u64),
    /// The next demand is made at a moment so much earlier.
    Early(u64),
    Try(u64),
    Undo(usize),
    Charge(u64),
    Add(u64),
    Book(u64),
    Reset,
    Replace(Bucket, Carry),
}

fn op() -> impl Strategy<Value = Op> {
    let cost = || prop_oneof![6 => 1u64..4, 2 => 1u64..9, 1 => Just(u64::MAX)];
    prop_oneof![
        6 => (0u64..6, 0u64..3).prop_map(|(quarters, nanos)| Op::Wait(quarters, nanos)),
        3 => prop_oneof![1u64..5, 0u64..2000].prop_map(Op::Early),
        10 => cost().prop_map(Op::Try),
        4 => any::<usize>().prop_map(Op::Undo),
        1 => cost().prop_map(Op::Charge),
        1 => (0u64..9).prop_map(Op::Add),
        2 => (1u64..9).prop_map(Op::Book),
        1 => Just(Op::Reset),
        1 => (alteration(), carry()).prop_map(|(other, carry)| Op::Replace(other, carry)),
    ]
}

struct Compared<'a> {
    spec: &'a Spec,
    start: Nanos,
    ops: &'a [Op],
}

impl WithRule for Compared<'_> {
    type Output = ();

    fn with<R: Described>(self, mut rule: R)
    where
        Gate<R>: Subject,
    {
        let moment = Moment::from_nanos;
        let mut now = self.start;
        rule.begin(moment(now));
        let mut state = rule.fresh(moment(now));
        let mut naive = reference::Rule::new(self.spec.clone(), now);
        let mut early = 0;
        let mut grants: Vec<(Nanos, u64)> = Vec::new();
        for (step, op) in self.ops.iter().enumerate() {
            match *op {
                Op::Wait(quarters, nanos) => {
                    let span = self.spec.period() / 4 * quarters + nanos;
                    now = now.saturating_add(span).min(1 << 62);
                }
                Op::Early(by) => early = by,
                Op::Try(cost) => {
                    let cost = cost.min(naive.limit());
                    let at = now
                        .saturating_sub(std::mem::take(&mut early))
                        .max(self.start);
                    naive.seen(at);
                    let fits = naive.fits(at, cost);
                    match rule.take(&mut state, moment(at), cost) {
                        Ok(()) => {
                            assert!(fits, "step {step}: {op:?} at {at} of {now}");
                            let taken = naive.take(at, cost);
                            let recorded = rule.recorded_at(&state, moment(at));
                            assert_eq!(recorded, moment(taken), "step {step}: {op:?}");
                            grants.push((taken, cost));
                        }
                        // Whoever comes from the past may be told less, never more.
                        Err(refusal) => {
                            assert!(!fits || at < now, "step {step}: {op:?} at {at} of {now}");
                            if at == now {
                                rule.refused(&mut state, moment(at), cost, refusal);
                                naive.refused(at, cost);
                            }
                        }
                    }
                }
                Op::Undo(which) if !grants.is_empty() => {
                    let (taken, cost) = grants.swap_remove(which % grants.len());
                    let at = now.max(taken);
                    rule.refund(&mut state, moment(at), moment(taken), cost);
                    naive.undo(at, taken, cost);
                }
                Op::Charge(cost) if !naive.gives_back() => {
                    rule.charge(&mut state, moment(now), cost);
                    naive.charge(now, cost);
                }
                Op::Add(amount) if !naive.gives_back() => {
                    rule.add(&mut state, moment(now), amount);
                    naive.add(now, amount);
                }
                Op::Book(cost) if self.spec.books() && cost <= naive.limit() => {
                    let booked = rule.book(&state, moment(now), cost);
                    let ready_at = booked.map(|(next, ready_at)| {
                        state = next;
                        ready_at
                    });
                    let known = ready_at.filter(|at| at.as_nanos() < u64::MAX);
                    assert_eq!(
                        known,
                        naive.book(now, cost).map(moment),
                        "step {step}: {op:?}"
                    );
                }
                Op::Reset if !naive.gives_back() => {
                    state = rule.fresh(moment(now));
                    naive.reset(now);
                    grants.clear();
                }
                Op::Replace(other, carry) if !naive.gives_back() => {
                    // The proportion of what a smooth limit has stored is rounded.
                    let rounded = matches!(self.spec, Spec::Bursty { .. });
                    if !(rounded && carry == Carry::Proportional) {
                        let other = altered(&naive.spec, other);
                        let mut next = R::of(&other);
                        next.begin(moment(now));
                        state = next.adopt(&rule, &state, moment(now), real_carry(carry));
                        if !next.keeps_grants(real_carry(carry)) {
                            grants.clear();
                        }
                        rule = next;
                        naive.replace(other, now, carry);
                    }
                }
                _ => {}
            }
            let seen = (
                rule.available(&state, moment(now)),
                rule.in_use(&state, moment(now)),
            );
            // A debt of more units than this is cut off: the largest cost times the largest limit, carried over in
            // proportion, once made one.
            if naive.used(now) > 1 << 62 {
                return;
            }
            let expected = (naive.available(now), naive.used(now));
            assert_eq!((seen.0, seen.1), expected, "step {step}: {op:?} at {now}");
            for cost in [1, 3] {
                let cost = cost.min(naive.limit());
                let ready_at = match rule.peek(&state, moment(now), cost) {
                    Ok(()) => Some(now),
                    Err(refusal) => refusal.ready_at().map(Moment::as_nanos),
                };
                let expected = naive.earliest(now, cost);
                assert_eq!(
                    ready_at, expected,
                    "step {step}: {op:?}, then {cost} at {now}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // More with PROPTEST_CASES.
        cases: ProptestConfig::default().cases.max(4000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_rules_answer_as_the_naive_ones_on_a_clock_that_steps(
        spec in spec(),
        start in prop_oneof![Just(0u64), Just(1_700_000_000_000_000_000)],
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        with_rule(&spec, Compared { spec: &spec, start, ops: &ops });
    }
}
