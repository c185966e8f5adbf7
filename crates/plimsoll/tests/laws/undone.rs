//! Undoing frees what was taken, and never more than is still held.

use plimsoll::{Moment, Rule};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::every_rule::{Law, Params, Step, World, calm_step, many_cases, params, step, wait};

/// Taking and putting back at the same moment is as good as nothing.
struct Exact<'a> {
    period: u64,
    start: u64,
    before: &'a [Step],
    cost: u64,
    after: &'a [Step],
}

impl Law for Exact<'_> {
    fn check<R: Rule + Clone>(&mut self, rule: R) {
        if !R::EXACT_REFUNDS {
            return;
        }
        let mut world = World::begin(rule, self.period, self.start);
        let mut state = world.rule.fresh_key(world.now);
        for &step in self.before {
            world.pass(step);
            world.step(&mut state, step);
        }
        let untouched = state.clone();
        let (now, cost) = (world.now, world.cost(self.cost));
        if world.rule.take(&mut state, now, cost).is_ok() {
            let taken = world.rule.recorded_at(&state, now);
            // Time may have stood still; from here on it is what the state has seen.
            world.now = taken;
            world.rule.refund(&mut state, taken, taken, cost);
            world.compare(state, untouched, self.after);
        }
    }
}

/// Whatever others do meanwhile, nobody is better off than if nothing had been taken.
struct NeverMore<'a> {
    period: u64,
    start: u64,
    before: &'a [Step],
    cost: u64,
    meanwhile: &'a [Step],
    after: &'a [Step],
}

impl Law for NeverMore<'_> {
    fn check<R: Rule + Clone>(&mut self, rule: R) {
        let mut world = World::begin(rule, self.period, self.start);
        let mut with = world.rule.fresh_key(world.now);
        for &step in self.before {
            world.pass(step);
            world.step(&mut with, step);
        }
        let mut without = with.clone();
        let cost = world.cost(self.cost);
        if world.rule.take(&mut with, world.now, cost).is_err() {
            return;
        }
        let taken = world.rule.recorded_at(&with, world.now);
        for &step in self.meanwhile {
            world.pass(step);
            // What the others are granted or charged beside the grant is the same in both worlds.
            match step {
                Step::Take(cost) => {
                    let cost = world.cost(cost);
                    if world.rule.take(&mut with, world.now, cost).is_ok() {
                        let also = world.rule.take(&mut without, world.now, cost);
                        assert!(also.is_ok(), "{:?}: {with:?}, {without:?}", world.rule);
                    }
                }
                Step::Charge(cost) => {
                    let charged = world.rule.available(&with, world.now).min(cost);
                    world.rule.charge(&mut with, world.now, charged);
                    world.rule.charge(&mut without, world.now, charged);
                }
                _ => {}
            }
        }
        let now = world.now.max(taken);
        world.rule.refund(&mut with, now, taken, cost);
        world.now = now;
        for &step in self.after {
            world.pass(step);
            let left = |state| world.rule.available(state, world.now);
            let (with, without) = (left(&with), left(&without));
            assert!(with <= without, "{with} > {without} of {:?}", world.rule);
        }
    }
}

/// A warmed-up limit is not better or worse by a number.
fn is_comparable(params: &Params) -> bool {
    struct Comparable(bool);
    impl Law for Comparable {
        fn check<R: Rule + Clone>(&mut self, rule: R) {
            self.0 = !format!("{rule:?}").contains("WarmUp");
        }
    }
    let mut law = Comparable(false);
    params.obey(&mut law);
    law.0
}

fn steps(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step, 0..12)
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(17), Just(1_700_000_000_000_000_000)]
}

proptest! {
    #![proptest_config(many_cases())]

    #[test]
    fn what_is_undone_at_once_was_never_taken(
        params in params(), start in start(), cost in 0..9_u64,
        before in steps(step()), after in steps(step()),
    ) {
        let (before, after) = (&before[..], &after[..]);
        params.obey(&mut Exact { period: params.period, start, before, cost, after });
    }

    #[test]
    fn what_is_undone_later_frees_no_more_than_is_still_held(
        params in params().prop_filter("comparable", is_comparable), start in start(), cost in 0..9_u64,
        before in steps(step()), meanwhile in steps(calm_step()), after in steps(wait()),
    ) {
        let (before, meanwhile, after) = (&before[..], &meanwhile[..], &after[..]);
        params.obey(&mut NeverMore { period: params.period, start, before, cost, meanwhile, after });
    }
}

#[test]
fn the_moment_of_record_is_never_before_what_the_state_has_seen() {
    // Two threads read the clock in one order and take in the other. The later one was recorded later than it knew,
    // so undoing it freed what the first had taken, or nothing.
    struct Swapped;
    impl Law for Swapped {
        fn check<R: Rule + Clone>(&mut self, rule: R) {
            let world = World::begin(rule, 1000, 0);
            let (rule, late, early) =
                (&world.rule, Moment::from_nanos(5000), Moment::from_nanos(1));
            let mut state = rule.fresh_key(Moment::ORIGIN);
            if rule.take(&mut state, late, 1).is_err() {
                return;
            }
            let (first, left) = (state.clone(), rule.available(&state, late));
            if rule.take(&mut state, early, 1).is_err() {
                return;
            }
            let taken = rule.recorded_at(&state, early);
            rule.refund(&mut state, late, taken, 1);
            assert!(rule.available(&state, late) <= left, "{rule:?}");
            if R::EXACT_REFUNDS && taken >= late {
                assert_eq!(
                    rule.available(&state, late),
                    rule.available(&first, late),
                    "{rule:?}"
                );
            }
        }
    }
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..500 {
        let params = params().new_tree(&mut runner).unwrap().current();
        params.obey(&mut Swapped);
    }
}
