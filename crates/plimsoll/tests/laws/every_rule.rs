//! Every rate there is, and what can be done to one.

use std::time::Duration;

use plimsoll::{
    Bandwidths, FixedWindow, Moment, PenaltyBucket, Quota, Refresh, Refusal, Rule, SlidingCounter,
    SlidingLog, SlidingWindow, Smooth, TokenBucket,
};
use proptest::prelude::*;

use crate::gcra::Gcra;

/// The parameters of a rule of any kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    kind: u8,
    pub(crate) limit: u64,
    pub(crate) refill: u64,
    pub(crate) period: u64,
    initial: u64,
    segments: u32,
    gap: u64,
}

const KINDS: u8 = 15;

/// Something to be checked of a rule, whichever it is.
pub(crate) trait Law {
    fn check<R: Rule + Clone>(&mut self, rule: R);
}

impl Params {
    /// Checks the law on the rule of these parameters.
    pub(crate) fn obey(self, law: &mut impl Law) {
        let quota = Quota::new(self.limit, Duration::from_nanos(self.period));
        let refill = Quota::new(self.refill, Duration::from_nanos(self.period));
        let gap = Duration::from_nanos(self.gap % (self.period + 1));
        let initial = self.limit - self.initial.min(self.limit);
        let greedy = TokenBucket::greedy(refill).burst(self.limit);
        let interval = TokenBucket::interval(refill).burst(self.limit);
        let log = SlidingLog::new(quota).min_gap(gap);
        let segments = self
            .segments
            .min(u32::try_from(self.period).unwrap_or(u32::MAX));
        // Permits at intervals that are powers of two, so that nothing is rounded.
        let stored = Duration::from_nanos(1024 * (self.limit % 16));
        let rate = 1e9 / 1024.0;
        match self.kind {
            0 => law.check(greedy.initial(initial)),
            1 => law.check(interval.initial(initial)),
            2 => law.check(greedy),
            3 => law.check(interval),
            4 => law.check(Bandwidths::new([
                greedy,
                interval.burst(self.limit.saturating_add(3)),
            ])),
            5 => law.check(
                PenaltyBucket::new(greedy)
                    .lockout(2, 3 * refill.period().min(Duration::from_secs(9)))
                    .soft_window(refill.period().min(Duration::from_secs(9))),
            ),
            6 => law.check(Smooth::try_bursty(rate, stored).expect("a rate")),
            7 => law.check(Smooth::try_warm_up(rate, stored, 3.0).expect("a rate")),
            8 => law.check(FixedWindow::new(quota)),
            9 => law.check(FixedWindow::new(quota).aligned_to_epoch()),
            10 => law.check(SlidingWindow::new(quota, segments)),
            11 => law.check(SlidingCounter::new(quota)),
            12 => law.check(if self.initial.is_multiple_of(2) {
                log
            } else {
                log.counting_refusals()
            }),
            13 => law.check(Gcra {
                limit: self.limit,
                gap: self.period,
            }),
            _ => law.check(
                Refresh::new(quota).max_wait(4 * quota.period().min(Duration::from_secs(9))),
            ),
        }
    }
}

/// As many cases as are asked for, and 4,000 at least.
pub(crate) fn many_cases() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(4000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn params() -> impl Strategy<Value = Params> {
    let period = prop_oneof![1..20_u64, Just(1000), Just(1_000_000_007)];
    params_of(prop_oneof![4 => 1..9_u64, 1 => 1..1000_u64], period)
}

pub(crate) fn params_of(
    limit: impl Strategy<Value = u64> + Clone,
    period: impl Strategy<Value = u64>,
) -> impl Strategy<Value = Params> {
    let sizes = (limit.clone(), limit, period);
    let rest = (prop_oneof![Just(0), 0..9_u64], 1..6_u32, 0..9_u64);
    (0..KINDS, sizes, rest).prop_map(
        |(kind, (limit, refill, period), (initial, segments, gap))| Params {
            kind,
            limit,
            refill,
            period,
            initial,
            segments,
            gap,
        },
    )
}

/// Something that is done to a state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// So many eighths of a period, and so many nanoseconds.
    Wait(u64, u64),
    /// The clock steps back.
    Back(u64),
    Take(u64),
    Book(u64),
    Charge(u64),
    Add(u64),
    /// Asks, and lets the rule remember that it was refused.
    Try(u64),
}

pub(crate) fn wait() -> impl Strategy<Value = Step> {
    (0..20_u64, 0..3_u64).prop_map(|(eighths, nanos)| Step::Wait(eighths, nanos))
}

/// What others do, who are not refused.
pub(crate) fn calm_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => wait(),
        5 => (0..9_u64).prop_map(Step::Take),
        1 => (0..9_u64).prop_map(Step::Charge),
    ]
}

/// Anything.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => calm_step(),
        1 => (0..5_u64).prop_map(Step::Back),
        1 => (0..9_u64).prop_map(Step::Book),
        1 => (0..9_u64).prop_map(Step::Add),
        2 => (0..9_u64).prop_map(Step::Try),
    ]
}

/// A rule that has begun, and a time.
pub(crate) struct World<R: Rule> {
    pub(crate) rule: R,
    pub(crate) period: u64,
    pub(crate) now: Moment,
}

/// What a step came to, for comparisons.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seen {
    answer: Option<Result<(), Refusal>>,
    booked: Option<Moment>,
    pub(crate) available: u64,
    in_use: u64,
    full_at: Option<Moment>,
}

impl<R: Rule> World<R> {
    pub(crate) fn begin(mut rule: R, period: u64, start: u64) -> Self {
        let now = Moment::from_nanos(start);
        rule.begin(now);
        Self { rule, period, now }
    }

    /// What a gate would ask for: at least one, at most the limit.
    pub(crate) fn cost(&self, cost: u64) -> u64 {
        1 + cost % self.rule.limit()
    }

    /// Moves the time if the step does; once for all states that are compared.
    pub(crate) fn pass(&mut self, step: Step) {
        let nanos = self.now.as_nanos();
        self.now = Moment::from_nanos(match step {
            Step::Wait(eighths, more) => {
                let span = u128::from(self.period) * u128::from(eighths) / 8;
                nanos
                    .saturating_add(u64::try_from(span).unwrap_or(u64::MAX))
                    .saturating_add(more)
            }
            Step::Back(by) => nanos.saturating_sub(by),
            _ => nanos,
        });
    }

    /// Does the step to a state, now.
    pub(crate) fn step(&self, state: &mut R::State, step: Step) -> Seen {
        let (rule, now) = (&self.rule, self.now);
        let (mut answer, mut booked) = (None, None);
        match step {
            Step::Wait(..) | Step::Back(_) => {}
            Step::Take(cost) => answer = Some(rule.take(state, now, self.cost(cost))),
            Step::Book(cost) => {
                if let Some((next, ready_at)) = rule.book(state, now, self.cost(cost)) {
                    *state = next;
                    booked = Some(ready_at);
                }
            }
            Step::Charge(cost) => rule.charge(state, now, cost),
            Step::Add(amount) => rule.add(state, now, amount),
            Step::Try(cost) => {
                let cost = self.cost(cost);
                let taken = rule.take(state, now, cost);
                answer = Some(taken.map_err(|refusal| rule.refused(state, now, cost, refusal)));
            }
        }
        Seen {
            answer,
            booked,
            available: rule.available(state, now),
            in_use: rule.in_use(state, now),
            full_at: rule.full_at(state, now).map(|at| at.max(now)),
        }
    }

    /// Does the steps to both states and finds that they cannot be told apart.
    pub(crate) fn compare(&mut self, mut one: R::State, mut other: R::State, steps: &[Step]) {
        let mut look = vec![Step::Wait(0, 0)];
        look.extend(steps.iter().filter(|step| !matches!(step, Step::Back(_))));
        for (number, step) in look.into_iter().enumerate() {
            self.pass(step);
            let seen = (self.step(&mut one, step), self.step(&mut other, step));
            assert_eq!(
                seen.0, seen.1,
                "{number}: {step:?} at {:?}\n{one:?}\n{other:?}\n{:?}",
                self.now, self.rule
            );
        }
    }
}
