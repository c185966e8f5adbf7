//! A state is forgotten when nobody can tell it from that of a new key.

use plimsoll::{Moment, Rule};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::every_rule::{Law, Step, World, many_cases, params, step};

struct AsNew<'a> {
    period: u64,
    start: u64,
    before: &'a [Step],
    /// How long after it could be forgotten, in nanoseconds.
    later: u64,
    after: &'a [Step],
}

impl Law for AsNew<'_> {
    fn check<R: Rule + Clone>(&mut self, rule: R) {
        let mut world = World::begin(rule, self.period, self.start);
        let mut state = world.rule.fresh_key(world.now);
        let mut latest = world.now;
        for &step in self.before {
            world.pass(step);
            world.step(&mut state, step);
            latest = latest.max(world.now);
        }
        world.now = latest;
        let from = world.rule.evictable_from(&state, latest);
        let Some(from) = from.filter(|from| from.as_nanos() < u64::MAX >> 1) else {
            return;
        };
        world.now = from.max(latest).plus_nanos(self.later);
        let new = world.rule.fresh_key(world.now);
        world.compare(state, new, self.after);
    }
}

proptest! {
    #![proptest_config(many_cases())]

    #[test]
    fn from_then_on_a_state_cannot_be_told_from_a_new_one(
        params in params(),
        start in prop_oneof![Just(0), Just(17_u64), Just(1_700_000_000_000_000_000)],
        before in proptest::collection::vec(step(), 0..12),
        later in prop_oneof![Just(0), 0..3_u64, 0..5000_u64],
        after in proptest::collection::vec(step(), 0..12),
    ) {
        let (before, after) = (&before[..], &after[..]);
        params.obey(&mut AsNew { period: params.period, start, before, later, after });
    }
}

#[test]
fn a_limit_whose_keys_begin_full_forgets_them_in_the_end() {
    struct Forgets(u64);
    impl Law for Forgets {
        fn check<R: Rule + Clone>(&mut self, rule: R) {
            let world = World::begin(rule, 1000, 0);
            let mut state = world.rule.fresh_key(Moment::ORIGIN);
            let most = world.rule.available(&state, Moment::ORIGIN);
            // Nothing that begins with less than its limit does; and of a stored one nobody can tell.
            let full = most == world.rule.limit();
            if full && world.rule.take(&mut state, Moment::ORIGIN, 1).is_ok() {
                let from = world.rule.evictable_from(&state, Moment::ORIGIN);
                assert!(
                    from.is_some_and(|from| from.as_nanos() < 1 << 62),
                    "{:?}",
                    world.rule
                );
                self.0 += 1;
            }
        }
    }
    let mut law = Forgets(0);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..200 {
        params()
            .new_tree(&mut runner)
            .unwrap()
            .current()
            .obey(&mut law);
    }
    assert!(law.0 > 100);
}
