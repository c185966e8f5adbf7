//! No stretch of time ever sees more than its limit allows, whatever is asked and however time jumps; and
//! who is told when to come back is told exactly.

use std::time::Duration;

use plimsoll::{FixedWindow, Gate, ManualClock, Moment, Quota, Rule, SlidingWindow, TokenBucket};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Two centuries from now, and more than two before the clock ends.
const LAST: Moment = Moment::from_nanos(1 << 63);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Greedy { burst: u64, refill: u64 },
    Interval { burst: u64, refill: u64 },
    Fixed { limit: u64 },
    Sliding { limit: u64, segments: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    kind: Kind,
    period: u64,
    start: u64,
}

impl Limit {
    /// The most that may be granted from one moment to another, both included.
    ///
    /// A full bucket, and what came in between; a full window for every window that is touched.
    fn allowed(&self, from: u64, to: u64) -> u128 {
        let period = u128::from(self.period);
        let since_start = |at: u64| u128::from(at - self.start);
        let parts = |of: u128| since_start(to) * of / period - since_start(from) * of / period;
        match self.kind {
            Kind::Greedy { burst, refill } => {
                u128::from(burst) + u128::from(to - from) * u128::from(refill) / period
            }
            Kind::Interval { burst, refill } => u128::from(burst) + parts(1) * u128::from(refill),
            Kind::Fixed { limit } => (parts(1) + 1) * u128::from(limit),
            Kind::Sliding { limit, segments } => {
                let segments = u128::from(segments);
                (parts(segments) + 1).div_ceil(segments) * u128::from(limit)
            }
        }
    }

    fn most(&self) -> u64 {
        match self.kind {
            Kind::Greedy { burst: most, .. } | Kind::Interval { burst: most, .. } => most,
            Kind::Fixed { limit: most } | Kind::Sliding { limit: most, .. } => most,
        }
    }

    fn span(&self, step: &Step) -> u64 {
        let eighths = (self.period / 8).saturating_mul(step.eighths);
        eighths.saturating_add(step.nanos)
    }

    fn check(&self, grants: &[(u64, u64)]) {
        for (at, &(from, _)) in grants.iter().enumerate() {
            let mut sum = 0;
            for &(to, cost) in &grants[at..] {
                sum += u128::from(cost);
                let allowed = self.allowed(from, to);
                assert!(
                    sum <= allowed,
                    "{sum} > {allowed} from {from} to {to}: {self:?}"
                );
            }
        }
    }
}

/// Runs a test on the rule, whichever it is.
trait Run {
    fn on<R: Rule>(&self, rule: R);
}

impl Limit {
    fn run(&self, test: &impl Run) {
        let quota = |units| Quota::new(units, Duration::from_nanos(self.period));
        match self.kind {
            Kind::Greedy { burst, refill } => {
                test.on(TokenBucket::greedy(quota(refill)).burst(burst));
            }
            Kind::Interval { burst, refill } => {
                test.on(TokenBucket::interval(quota(refill)).burst(burst));
            }
            Kind::Fixed { limit } => test.on(FixedWindow::new(quota(limit))),
            Kind::Sliding { limit, segments } => {
                test.on(SlidingWindow::new(quota(limit), segments));
            }
        }
    }
}

/// A step in time, by parts of a period and nanoseconds, and what is asked then.
#[derive(Clone, Copy, Debug)]
struct Step {
    back: bool,
    eighths: u64,
    nanos: u64,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Some(u64),
    Share(u64),
    All,
}

impl Cost {
    fn of(self, most: u64) -> u64 {
        match self {
            Self::Some(cost) => cost.min(most),
            Self::Share(share) => (most / share).max(1),
            Self::All => most,
        }
    }
}

fn limit() -> impl Strategy<Value = Limit> {
    const CENTURY: u64 = 36_500 * 86_400 * 1_000_000_000;
    let units = || prop_oneof![4 => 1u64..20, 1 => Just(u64::MAX), 1 => 1..=u64::MAX];
    let period = prop_oneof![
        Just(1u64),
        2u64..50,
        Just(1_000_000_007),
        Just(CENTURY),
        1u64..=1 << 62
    ];
    let kind = prop_oneof![
        (units(), units()).prop_map(|(burst, refill)| Kind::Greedy { burst, refill }),
        (units(), units()).prop_map(|(burst, refill)| Kind::Interval { burst, refill }),
        units().prop_map(|limit| Kind::Fixed { limit }),
        (units(), 1u32..12).prop_map(|(limit, segments)| Kind::Sliding { limit, segments }),
    ];
    let start = prop_oneof![Just(0u64), Just(1_700_000_000_000_000_000)];
    (kind, period, start).prop_map(|(kind, period, start)| {
        let period = match kind {
            Kind::Sliding { segments, .. } => period.max(segments.into()),
            _ => period,
        };
        Limit {
            kind,
            period,
            start,
        }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = prop_oneof![
        3 => (1u64..6).prop_map(Cost::Some),
        2 => (2u64..9).prop_map(Cost::Share),
        1 => Just(Cost::All),
    ];
    let eighths = prop_oneof![3 => Just(0u64), 3 => 0u64..10, 1 => 0u64..100];
    let step = (proptest::bool::weighted(0.2), eighths, 0u64..4, cost);
    let step = step.prop_map(|(back, eighths, nanos, cost)| Step {
        back,
        eighths,
        nanos,
        cost,
    });
    proptest::collection::vec(step, 1..80)
}

/// Asks a rule itself, which sees time step back.
struct Asked<'a>(&'a Limit, &'a [Step]);

impl Run for Asked<'_> {
    fn on<R: Rule>(&self, mut rule: R) {
        let Self(limit, steps) = *self;
        let mut now = limit.start;
        let mut latest = now;
        rule.begin(Moment::from_nanos(now));
        let mut state = rule.fresh(Moment::from_nanos(now));
        let mut grants = Vec::new();
        for step in steps {
            let span = limit.span(step);
            now = if step.back {
                now.saturating_sub(span)
            } else {
                now.saturating_add(span).min(LAST.as_nanos())
            };
            latest = latest.max(now);
            let cost = step.cost.of(limit.most());
            if rule.take(&mut state, Moment::from_nanos(now), cost).is_ok() {
                grants.push((latest, cost));
            }
        }
        limit.check(&grants);
    }
}

/// Asks a limiter; comes back when it is told to, and just before that.
struct ComesBack<'a>(&'a Limit, &'a [Step]);

impl Run for ComesBack<'_> {
    fn on<R: Rule>(&self, rule: R) {
        let Self(limit, steps) = *self;
        let time = ManualClock::starting_at(Moment::from_nanos(limit.start));
        let gate = Gate::builder(rule).clock(time.clock()).build();
        let mut grants = Vec::new();
        for step in steps {
            let to = time.now().plus_nanos(limit.span(step)).min(LAST);
            time.advance_to(to);
            let cost = step.cost.of(limit.most());
            if let Err(denied) = gate.try_acquire(cost) {
                let Some(after) = denied.retry_after() else {
                    // So far away that the clock does not reach it.
                    break;
                };
                let then = time.now().plus(after);
                time.advance_to(Moment::from_nanos(then.as_nanos() - 1));
                assert!(gate.try_acquire(cost).is_err(), "1 ns early: {limit:?}");
                time.advance_to(then);
                assert!(gate.try_acquire(cost).is_ok(), "in time: {limit:?}");
            }
            grants.push((time.now().as_nanos(), cost));
        }
        limit.check(&grants);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_stretch_of_time_sees_more_than_is_allowed(limit in limit(), steps in steps()) {
        limit.run(&Asked(&limit, &steps));
    }

    #[test]
    fn who_comes_back_as_told_is_granted_and_a_nanosecond_earlier_refused(
        limit in limit(),
        steps in steps(),
    ) {
        limit.run(&ComesBack(&limit, &steps));
    }
}
