//! A rate of a file answers as a gate with the same rule does, whatever is asked: the rule of a file stands for all kinds, and
//! must pass everything on.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{
    Bandwidths, Denied, FixedWindow, Gate, Limiter, LimiterExt, ManualClock, PenaltyBucket, Permit,
    Queue, Quota, Refresh, Rule, SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket,
};
use plimsoll_config::{Config, Format, Limits};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// A kind as a file says it, and the gate that it should be.
fn pairs(time: &ManualClock) -> Vec<(&'static str, Arc<dyn Limiter>)> {
    fn gate<R: Rule>(rule: R, time: &ManualClock) -> Arc<dyn Limiter> {
        Arc::new(
            Gate::builder(rule)
                .clock(time.clock())
                .name("a")
                .queue(Queue::fifo(3))
                .build(),
        )
    }
    let quota = Quota::try_new(5, SECOND).expect("a quota");
    let slow = || TokenBucket::greedy(Quota::try_new(3, SECOND).expect("a quota")).burst(5);
    vec![
        (
            "kind: fixed_window, limit: 5, window: 1s",
            gate(FixedWindow::new(quota), time),
        ),
        (
            "kind: fixed_window, limit: 5, window: 1s, align: epoch",
            gate(FixedWindow::new(quota).aligned_to_epoch(), time),
        ),
        (
            "kind: sliding_window, limit: 5, window: 1s, segments: 4",
            gate(SlidingWindow::try_new(quota, 4).expect("a rule"), time),
        ),
        (
            "kind: sliding_log, limit: 5, window: 1s",
            gate(SlidingLog::new(quota), time),
        ),
        (
            "kind: sliding_log, limit: 5, window: 1s, min_gap: 50ms, count_denied: true",
            gate(
                SlidingLog::new(quota)
                    .try_min_gap(Duration::from_millis(50))
                    .expect("a rule")
                    .counting_refusals(),
                time,
            ),
        ),
        (
            "kind: sliding_counter, limit: 5, window: 1s",
            gate(SlidingCounter::new(quota), time),
        ),
        (
            "kind: token_bucket, burst: 5, refill: 3, every: 1s",
            gate(slow(), time),
        ),
        (
            "kind: token_bucket, burst: 5, refill: 5, every: 1s, style: interval, initial: 2",
            gate(TokenBucket::interval(quota).burst(5).initial(2), time),
        ),
        (
            "kind: bandwidths, limits: [{ id: x, burst: 5, refill: 3, every: 1s }]",
            gate(
                Bandwidths::try_named(vec![(Some("x"), slow())]).expect("a rule"),
                time,
            ),
        ),
        (
            "kind: smooth_bursty, rate: 4",
            gate(Smooth::try_bursty(4.0, SECOND).expect("a rule"), time),
        ),
        (
            "kind: smooth_warmup, rate: 4, warmup: 2s",
            gate(
                Smooth::try_warm_up(4.0, 2 * SECOND, 3.0).expect("a rule"),
                time,
            ),
        ),
        (
            "kind: refresh, limit: 5, period: 1s, max_wait: 700ms",
            gate(
                Refresh::new(quota).max_wait(Duration::from_millis(700)),
                time,
            ),
        ),
        (
            "kind: penalty_bucket, burst: 5, refill: 3, soft_limit: 2, soft_window: 1s, lockout: 2s",
            gate(
                PenaltyBucket::new(slow())
                    .lockout(2, 2 * SECOND)
                    .soft_window(SECOND),
                time,
            ),
        ),
    ]
}

fn build(kind: &str, time: &ManualClock) -> Limits {
    let text = format!("limiters: {{ a: {{ {kind}, queue: {{ bound: 3 }} }} }}");
    let config = Config::from_str("a.yaml", &text, Format::Yaml);
    config
        .unwrap_or_else(|error| panic!("{error}"))
        .build(&time.clock())
        .expect("builds")
}

#[derive(Debug, Clone)]
enum Step {
    Try(u64),
    TryAndUndo(u64),
    Estimate(u64),
    Reserve(u64, u64),
    Charge(u64),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..7).prop_map(Step::Try),
        1 => (1u64..5).prop_map(Step::TryAndUndo),
        2 => (0u64..7).prop_map(Step::Estimate),
        1 => (1u64..6, 0u64..2000).prop_map(|(cost, within)| Step::Reserve(cost, within)),
        1 => (0u64..9).prop_map(Step::Charge),
        4 => (0u64..1500).prop_map(Step::Advance),
    ]
}

/// What can be told of an answer.
fn told<T>(answer: Result<T, Denied>) -> Result<(), Denied> {
    answer.map(|_| ())
}

fn same(one: &dyn Limiter, other: &dyn Limiter, step: &Step) -> Result<(), TestCaseError> {
    let both: Vec<_> = [one, other]
        .into_iter()
        .map(|limiter| match step {
            Step::Try(cost) => told(limiter.try_acquire((*cost).into()).map(Permit::forget)),
            Step::TryAndUndo(cost) => told(limiter.try_acquire((*cost).into()).map(Permit::undo)),
            Step::Estimate(cost) => limiter.estimate((*cost).into()),
            Step::Reserve(cost, within) => {
                let within = Duration::from_millis(*within);
                let demand = plimsoll::Demand::of(*cost).within(within);
                told(
                    limiter
                        .reserve(demand)
                        .map(|reservation| reservation.wait()),
                )
            }
            Step::Charge(cost) => {
                limiter.charge(*cost);
                Ok(())
            }
            Step::Advance(_) => Ok(()),
        })
        .collect();
    prop_assert_eq!(&both[0], &both[1]);
    prop_assert_eq!(one.snapshot(), other.snapshot());
    prop_assert_eq!(one.standing(), other.standing());
    prop_assert_eq!(told(one.check_saturation()), told(other.check_saturation()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_kind_answers_as_its_rule_does(steps in prop::collection::vec(step(), 1..40)) {
        let time = ManualClock::new();
        let pairs: Vec<_> = pairs(&time)
            .into_iter()
            .map(|(kind, gate)| (kind, build(kind, &time).limiter("a").expect("there"), gate))
            .collect();
        for step in &steps {
            if let Step::Advance(millis) = step {
                time.advance(Duration::from_millis(*millis));
            }
            for (kind, limiter, gate) in &pairs {
                same(&**limiter.shared(), &**gate, step)
                    .map_err(|error| TestCaseError::fail(format!("{kind}: {error}")))?;
            }
        }
    }
}
