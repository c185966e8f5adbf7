//! What cannot be is said when a limiter is built; what is merely extreme is built, and works.

use std::panic::{UnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{
    All, Bandwidths, Batched, Concurrency, Demand, FixedWindow, Gate, InvalidLimit, Limiter,
    ManualClock, Moment, Partitions, PenaltyBucket, Queue, Quota, Reason, Rule, SlidingLog,
    SlidingWindow, Smooth, TokenBucket,
};

const YEAR: Duration = Duration::from_secs(365 * 86_400);
const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

fn errors() -> Vec<(InvalidLimit, [&'static str; 3])> {
    fn of<T>(result: Result<T, InvalidLimit>) -> InvalidLimit {
        result.err().expect("an option is wrong")
    }
    let bucket = || TokenBucket::per_second(5);
    let sliding = |segments| SlidingWindow::try_new(Quota::new(1, SECOND), segments);
    let few_nanos = Quota::new(1, Duration::from_nanos(3));
    let gate = || Gate::new(bucket());
    let at_least_one = "at least 1";
    let segments = "1 to 65536";
    let a_nano_each = "at most one for each nanosecond of the window";
    let at_most_the_limit = "at least 1 and at most the limit";
    vec![
        (of(Quota::try_new(0, SECOND)), ["limit", "0", at_least_one]),
        (
            of(Quota::try_new(1, Duration::ZERO)),
            ["period", "0ns", "at least 1ns"],
        ),
        (
            of(Quota::try_new(1, 147 * YEAR)),
            ["period", "4635792000s", "at most 146 years"],
        ),
        (
            of(Quota::try_new(1, Duration::MAX)),
            [
                "period",
                "18446744073709551615.999999999s",
                "at most 146 years",
            ],
        ),
        (of(bucket().try_burst(0)), ["burst", "0", at_least_one]),
        (
            of(bucket().try_initial(6)),
            ["initial", "6", "at most the burst"],
        ),
        // Both were accepted by the doors for literals: one check, two doors.
        (
            of(SlidingLog::new(few_nanos).try_min_gap(SECOND)),
            ["min_gap", "1s", "at most the window"],
        ),
        (
            of(PenaltyBucket::new(bucket()).try_lockout(0, SECOND)),
            ["soft_limit", "0", at_least_one],
        ),
        (of(sliding(0)), ["segments", "0", segments]),
        (of(sliding(65_537)), ["segments", "65537", segments]),
        (of(sliding(u32::MAX)), ["segments", "4294967295", segments]),
        (
            of(SlidingWindow::try_new(few_nanos, 4)),
            ["segments", "4", a_nano_each],
        ),
        (of(Concurrency::try_new(0)), ["limit", "0", at_least_one]),
        (
            of(Gate::new(Concurrency::new(1)).resize(0)),
            ["limit", "0", at_least_one],
        ),
        (of(All::try_new([])), ["of", "empty", "at least 1 limiter"]),
        (
            of(Batched::try_new(gate(), 0)),
            ["batch", "0", at_most_the_limit],
        ),
        (
            of(Batched::try_new(gate(), 6)),
            ["batch", "6", at_most_the_limit],
        ),
    ]
}

#[test]
fn what_is_wrong_with_an_option_is_said_with_its_name_value_and_rule() {
    for (invalid, [field, value, rule]) in errors() {
        let said = [invalid.field(), invalid.value(), invalid.rule()];
        assert_eq!(said, [field, value, rule]);
        let expected = format!("`{field}` is {value}: expected {rule}");
        assert_eq!(invalid.to_string(), expected);
    }
}

fn panics<T>(build: impl FnOnce() -> T + UnwindSafe) -> String {
    let panic = catch_unwind(|| drop(build())).expect_err("an option is wrong");
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[test]
fn the_doors_for_literals_panic_and_say_why() {
    let second = Quota::per_second(5);
    let cases = [
        (
            panics(|| Quota::per_second(0)),
            "a quota needs at least 1 unit",
        ),
        (
            panics(|| Quota::per_minute(0)),
            "a quota needs at least 1 unit",
        ),
        (
            panics(|| Quota::per_hour(0)),
            "a quota needs at least 1 unit",
        ),
        (
            panics(|| TokenBucket::per_second(0)),
            "a quota needs at least 1 unit",
        ),
        (
            panics(|| Quota::new(1, Duration::ZERO)),
            "the period of a quota must not be zero",
        ),
        (
            panics(|| Quota::new(1, 147 * YEAR)),
            "the period of a quota must be at most 146 years",
        ),
        (
            panics(|| Quota::new(1, Duration::MAX)),
            "the period of a quota must be at most 146 years",
        ),
        (
            panics(move || TokenBucket::greedy(second).burst(0)),
            "a bucket must hold at least 1 token",
        ),
        (
            panics(move || TokenBucket::interval(second).initial(6)),
            "a bucket cannot start with more than its burst",
        ),
        (
            panics(move || SlidingLog::new(second).min_gap(SECOND + NANO)),
            "`min_gap` is 1.000000001s: expected at most the window",
        ),
        (
            panics(|| PenaltyBucket::new(TokenBucket::per_second(1)).lockout(0, SECOND)),
            "a lockout needs at least 1 refusal",
        ),
        (
            panics(move || SlidingWindow::new(second, 0)),
            "a window has 1 to 65536 segments",
        ),
        (
            panics(move || SlidingWindow::new(second, 65_537)),
            "a window has 1 to 65536 segments",
        ),
        (
            panics(|| SlidingWindow::new(Quota::new(1, NANO), 2)),
            "a segment must last at least 1ns",
        ),
        (
            panics(|| Concurrency::new(0)),
            "a concurrency limit must be at least 1",
        ),
        (
            panics(|| All::new([])),
            "`of` is empty: expected at least 1 limiter",
        ),
    ];
    for (said, expected) in cases {
        assert_eq!(said, expected);
    }
}

/// Each pair of doors has one check: what the one panics at, the other reports.
#[test]
fn panicking_and_fallible_doors_reject_the_same() {
    fn same<T, U>(new: impl FnOnce() -> T + UnwindSafe, tried: Result<U, InvalidLimit>) -> bool {
        let panicked = catch_unwind(|| drop(new())).is_err();
        assert_eq!(panicked, tried.is_err(), "{:?}", tried.err());
        panicked
    }
    let (mut rejected, mut accepted) = (0, 0);
    let mut count = |rejects: bool| {
        *if rejects {
            &mut rejected
        } else {
            &mut accepted
        } += 1
    };
    let spans = [0, 1, 1 << 62, (1 << 62) + 1].map(Duration::from_nanos);
    let minute = Quota::per_minute(5);
    let bucket = TokenBucket::greedy(minute);
    for number in [0, 1, 5, 6, 65_536, 65_537, u64::MAX] {
        for span in spans.into_iter().chain([Duration::MAX]) {
            count(same(
                || Quota::new(number, span),
                Quota::try_new(number, span),
            ));
        }
        count(same(
            || Concurrency::new(number),
            Concurrency::try_new(number),
        ));
        let (one, other) = (bucket.clone(), bucket.clone());
        count(same(move || one.burst(number), other.try_burst(number)));
        let (one, other) = (bucket.clone(), bucket.clone());
        count(same(move || one.initial(number), other.try_initial(number)));
        let count_of = u32::try_from(number).unwrap_or(u32::MAX);
        let penalty = PenaltyBucket::new(bucket.clone());
        let other = penalty.clone().try_lockout(count_of, SECOND);
        count(same(move || penalty.lockout(count_of, SECOND), other));
        for quota in [minute, Quota::new(1, NANO)] {
            let tried = SlidingWindow::try_new(quota, count_of);
            count(same(move || SlidingWindow::new(quota, count_of), tried));
        }
        let buckets = vec![bucket.clone(); number.min(2) as usize];
        let tried = Bandwidths::try_new(buckets.clone());
        count(same(move || Bandwidths::new(buckets), tried));
    }
    for gap in [
        Duration::ZERO,
        SECOND,
        60 * SECOND,
        60 * SECOND + NANO,
        Duration::MAX,
    ] {
        let log = SlidingLog::new(minute);
        let tried = log.clone().try_min_gap(gap);
        count(same(move || log.min_gap(gap), tried));
    }
    for name in ["live", "nobody"] {
        let shares = || Partitions::new(Gate::new(Concurrency::new(10)), [("live", 7)]);
        let tried = shares().try_others(name);
        count(same(move || shares().others(name), tried));
    }
    let rates = [
        f64::NAN,
        f64::INFINITY,
        -1.0,
        0.0,
        1e-300,
        1.0,
        1e12,
        1.1e12,
    ];
    for rate in rates {
        count(same(
            move || Smooth::bursty(rate, SECOND),
            Smooth::try_bursty(rate, SECOND),
        ));
        let smooth = Smooth::bursty(1.0, SECOND);
        let tried = smooth.clone().try_rate(rate);
        count(same(move || smooth.rate(rate), tried));
        for factor in rates {
            let tried = Smooth::try_warm_up(rate, SECOND, factor);
            count(same(move || Smooth::warm_up(rate, SECOND, factor), tried));
        }
    }
    assert!(rejected > 50 && accepted > 50, "{rejected} and {accepted}");
}

/// What can be built at compile time is checked there.
const _: [TokenBucket; 2] = [
    TokenBucket::greedy(Quota::new(u64::MAX, Duration::from_nanos(1))),
    TokenBucket::interval(Quota::per_hour(1))
        .burst(7)
        .initial(0),
];
const _: FixedWindow = FixedWindow::new(Quota::per_minute(1)).aligned_to_epoch();
const _: SlidingWindow = SlidingWindow::new(Quota::per_second(1), 65_536);

/// Every rule at both ends of what can be asked for.
fn extremes(time: &ManualClock) -> Vec<Arc<dyn Limiter>> {
    fn gate<R: Rule>(rule: R, time: &ManualClock) -> Arc<dyn Limiter> {
        let builder = Gate::builder(rule).queue(Queue::fifo(u64::MAX));
        Arc::new(builder.clock(time.clock()).build())
    }
    let mut limiters = vec![
        gate(Concurrency::new(1), time),
        gate(Concurrency::new(u64::MAX), time),
    ];
    for units in [1, u64::MAX] {
        for period in [NANO, SECOND, 100 * YEAR, Duration::from_nanos(1 << 62)] {
            let quota = Quota::new(units, period);
            let most = u32::try_from(period.as_nanos()).map_or(65_536, |nanos| nanos.min(65_536));
            limiters.extend([
                gate(TokenBucket::greedy(quota), time),
                gate(TokenBucket::greedy(quota).burst(1), time),
                gate(TokenBucket::greedy(quota).burst(u64::MAX), time),
                gate(TokenBucket::interval(quota), time),
                gate(TokenBucket::interval(quota).burst(u64::MAX), time),
                gate(FixedWindow::new(quota), time),
                gate(FixedWindow::new(quota).aligned_to_epoch(), time),
                gate(SlidingWindow::new(quota, 1), time),
                gate(SlidingWindow::new(quota, most), time),
            ]);
        }
    }
    limiters
}

/// Everything that can be asked of a limiter; nothing of it may panic.
fn ask_everything(limiter: &dyn Limiter) {
    for cost in [0, 1, u64::MAX] {
        let demands = [
            Demand::of(cost),
            Demand::of(cost).within(Duration::MAX),
            Demand::of(cost).until(Moment::from_nanos(u64::MAX)),
        ];
        for demand in demands {
            let _answer = limiter.estimate(demand);
            drop(limiter.reserve(demand));
            drop(limiter.try_acquire(demand));
            let seen = limiter.snapshot();
            assert!(seen.available() <= seen.limit());
            assert!((0.0..=1.0).contains(&seen.saturation()));
        }
    }
}

#[test]
fn the_largest_limit_is_granted_at_once_and_not_once_more() {
    let time = ManualClock::new();
    for limiter in extremes(&time) {
        let most = limiter.snapshot().limit();
        let permit = limiter.try_acquire(Demand::of(most)).unwrap();
        assert_eq!(permit.cost(), most);
        let denied = limiter.try_acquire(Demand::ONE).unwrap_err();
        assert_eq!(denied.reason(), Reason::Exhausted);
        if most < u64::MAX {
            let denied = limiter.try_acquire(Demand::of(u64::MAX)).unwrap_err();
            assert_eq!(
                (denied.reason(), denied.retry_after()),
                (Reason::TooLarge, None)
            );
        }
    }
}

#[test]
fn extreme_limits_answer_everything_at_every_time() {
    // To within seconds of the end of time.
    const LAST: u64 = u64::MAX - (1 << 33);
    let time = ManualClock::new();
    let old = extremes(&time);
    for nanos in [
        0,
        1,
        1 << 31,
        1 << 40,
        (1 << 62) - 1,
        1 << 62,
        1 << 63,
        LAST,
    ] {
        time.advance_to(Moment::from_nanos(nanos));
        for limiter in old.iter().chain(&extremes(&time)) {
            ask_everything(&**limiter);
        }
    }
}

#[test]
fn extreme_limits_answer_everything_at_the_end_of_time() {
    let time = ManualClock::new();
    let old = extremes(&time);
    time.advance(Duration::MAX);
    for limiter in old.iter().chain(&extremes(&time)) {
        ask_everything(&**limiter);
    }
}
