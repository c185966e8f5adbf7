//! A cost that is known only when the work is done.

use std::time::Duration;

use plimsoll::{
    Carry, Concurrency, Demand, FixedWindow, Gate, Keyed, LimiterExt, ManualClock, PerKey, Quota,
    Rule, SlidingLog, TokenBucket,
};

const ESTIMATES: [u64; 4] = [1, 40, 500, 1000];
const COSTS: [u64; 5] = [0, 1, 200, 600, 1000];
const MILLIS: [u64; 5] = [0, 7, 500, 1000, 10_000];

/// What is left after a call that takes `estimate`, lasts for `millis` and turns out to cost `cost`.
fn left<R: Rule>(rule: R, estimate: u64, millis: u64, cost: u64) -> u64 {
    let time = ManualClock::new();
    let gate = Gate::builder(rule).clock(time.clock()).build();
    time.advance(Duration::from_millis(300));
    let permit = (estimate > 0).then(|| gate.try_acquire(estimate).expect("it fits"));
    time.advance(Duration::from_millis(millis));
    if let Some(mut permit) = permit {
        LimiterExt::settle(&gate, &mut permit, cost);
    }
    gate.snapshot().available()
}

/// The same for a key.
fn left_of_key<R: Rule + Clone>(rule: R, estimate: u64, millis: u64, cost: u64) -> u64 {
    let time = ManualClock::new();
    let keyed: Keyed<String, _> = Keyed::builder(rule).clock(time.clock()).build();
    time.advance(Duration::from_millis(300));
    let mut permit = keyed.try_acquire("anna", estimate).expect("it fits");
    time.advance(Duration::from_millis(millis));
    PerKey::settle(&keyed, "anna", &mut permit, cost);
    let standing = keyed.standing("anna");
    standing.remaining.expect("a limit in memory")
}

/// The refill of the time of a call was lost when more than the estimate was charged at its end.
#[test]
fn a_settled_cost_counts_from_when_the_estimate_was_taken() {
    fn check<R: Rule + Clone>(rule: &R, what: &str) {
        for (estimate, millis) in ESTIMATES.iter().flat_map(|e| MILLIS.map(|m| (*e, m))) {
            for cost in COSTS {
                let known = left(rule.clone(), cost, millis, cost);
                let settled = left(rule.clone(), estimate, millis, cost);
                let of_key = left_of_key(rule.clone(), estimate, millis, cost);
                let case = format!("{what}: {estimate} for {cost}, after {millis} ms");
                assert_eq!((settled, of_key), (known, known), "{case}");
            }
        }
    }
    check(&TokenBucket::per_second(200).burst(1000), "bucket");
    let second = Quota::new(1000, Duration::from_secs(1));
    check(&FixedWindow::new(second), "fixed window");
    check(&SlidingLog::new(second), "log");
}

#[test]
fn what_was_used_over_a_second_is_paid_for_by_the_refill_of_that_second() {
    let bucket = || TokenBucket::per_second(10_000);
    assert_eq!(left(bucket(), 1, 1000, 200), 10_000);
    assert_eq!(left(bucket(), 5000, 10, 200), 9900);
}

#[test]
fn a_settlement_never_gives_back_what_others_have_taken() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(10))
        .clock(time.clock())
        .build();
    let mut permit = gate.attempt_owned(Demand::of(10)).expect("it is full");
    time.advance(Duration::from_secs(1));
    gate.try_acquire(10).expect("it is full again").forget();
    LimiterExt::settle(&gate, &mut permit, 0);
    assert_eq!(gate.snapshot().available(), 0);
}

#[test]
fn slots_that_are_not_used_are_free_at_once() {
    let gate = Gate::new(Concurrency::new(10));
    let mut permit = gate.attempt_owned(Demand::of(6)).expect("there is room");
    LimiterExt::settle(&gate, &mut permit, 2);
    assert_eq!(gate.snapshot().in_use(), 2);
    LimiterExt::settle(&gate, &mut permit, 5);
    assert_eq!(gate.snapshot().in_use(), 2);
    drop(permit);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_permit_can_be_settled_again_and_undone_but_not_after_its_end() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(100))
        .clock(time.clock())
        .build();
    let mut permit = gate.attempt_owned(Demand::of(10)).expect("it is full");
    for cost in [40, 25, 90, 0, 7] {
        LimiterExt::settle(&gate, &mut permit, cost);
        assert_eq!(gate.snapshot().available(), (100 - cost));
    }
    permit.give_back(plimsoll::Outcome::Success);
    LimiterExt::settle(&gate, &mut permit, 50);
    assert_eq!(gate.snapshot().available(), 93);

    let mut permit = gate.attempt_owned(Demand::of(3)).expect("there is enough");
    LimiterExt::settle(&gate, &mut permit, 60);
    assert_eq!(gate.snapshot().available(), 33);
    LimiterExt::undo(&gate, permit);
    assert_eq!(gate.snapshot().available(), 93);
}

#[test]
fn what_was_taken_before_a_reset_is_not_settled_after_it() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(100))
        .clock(time.clock())
        .build();
    for cost in [90, 1] {
        let mut permit = gate.try_acquire(10).expect("it is full");
        gate.reset();
        LimiterExt::settle(&gate, &mut permit, cost);
        assert_eq!(gate.snapshot().available(), 100);
        time.advance(Duration::from_secs(1));
    }
}

/// After a change of the limit, what a permit cost more than its estimate was not charged, as if all usage had been discarded.
#[test]
fn what_is_missing_of_a_cost_is_charged_to_the_limit_that_took_the_usage_over() {
    let hundred = || TokenBucket::per_second(100);
    for carry in [Carry::AsIs, Carry::Used, Carry::Proportional, Carry::Reset] {
        let time = ManualClock::new();
        let gate = Gate::builder(hundred()).clock(time.clock()).build();
        let available = || gate.snapshot().available();
        for wait in [0, 1] {
            let mut permit = gate.try_acquire(10).expect("it is full");
            time.advance(Duration::from_millis(wait));
            let other = gate.try_acquire(20).expect("there is enough");
            gate.replace(hundred(), carry);
            let taken_over = available();
            let expected = if carry == Carry::Reset {
                100
            } else {
                taken_over - 30
            };
            LimiterExt::settle(&gate, &mut permit, 40);
            assert_eq!(available(), expected, "{carry:?}");
            // Which part of the sum is whose nobody knows.
            LimiterExt::settle(&gate, &mut permit, 0);
            LimiterExt::undo(&gate, other);
            assert_eq!(available(), expected, "{carry:?}");
            time.advance(Duration::from_secs(5));
            LimiterExt::settle(&gate, &mut permit, 100);
            assert_eq!(
                available(),
                100,
                "{carry:?}: the refill since has paid for it"
            );
        }
    }
}
