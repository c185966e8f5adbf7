//! Rates with awkward numbers stay exact over years: what is available and when it would be is compared
//! with plain fractions, at moments that lie anything from nanoseconds to centuries apart.

use std::time::Duration;

use plimsoll::{FixedWindow, Gate, Keyed, ManualClock, Moment, Quota, Rule, TokenBucket};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// A limit as a fraction: numbers as wide as they need to be, nothing left out.
#[derive(Clone, Copy, Debug)]
struct Plain {
    style: Style,
    limit: u128,
    refill: u128,
    every: u128,
    start: u128,
    now: u128,
    /// What is there, in parts of which a unit has `every` if it is greedy.
    held: u128,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Style {
    Greedy,
    Interval,
    Window,
}

impl Plain {
    fn unit(&self) -> u128 {
        if self.style == Style::Greedy {
            self.every
        } else {
            1
        }
    }

    fn periods(&self, at: u128) -> u128 {
        (at - self.start) / self.every
    }

    fn advance(&mut self, to: u128) {
        let full = self.limit * self.unit();
        let gained = match self.style {
            Style::Greedy => (to - self.now) * self.refill,
            Style::Interval => (self.periods(to) - self.periods(self.now)) * self.refill,
            Style::Window => (self.periods(to) - self.periods(self.now)) * full,
        };
        self.held = full.min(self.held.saturating_add(gained));
        self.now = to;
    }

    fn available(&self) -> u128 {
        self.held / self.unit()
    }

    /// Takes, or says after how many nanoseconds it would fit.
    fn take(&mut self, cost: u128) -> Result<(), u128> {
        let Some(missing) = (cost * self.unit()).checked_sub(self.held + 1) else {
            self.held -= cost * self.unit();
            return Ok(());
        };
        let missing = missing + 1;
        let periods = match self.style {
            Style::Greedy => return Err(missing.div_ceil(self.refill)),
            Style::Interval => missing.div_ceil(self.refill),
            Style::Window => 1,
        };
        let at = self.start + (self.periods(self.now) + periods) * self.every;
        Err(at - self.now)
    }
}

/// Of a gate and of a key.
fn compare<R: Rule + Clone>(rule: R, mut plain: Plain, steps: &[(u64, u64)]) {
    let start = u64::try_from(plain.start).expect("it is a moment");
    let time = ManualClock::starting_at(Moment::from_nanos(start));
    let keyed: Keyed<u8, R> = Keyed::builder(rule.clone()).clock(time.clock()).build();
    let gate = Gate::builder(rule).clock(time.clock()).build();
    // What so much brings in more than 292 years is more than 128 bits hold.
    let last = if plain.refill >> 63 == 0 {
        LAST
    } else {
        1 << 63
    };
    for &(span, cost) in steps {
        let now = time.now().as_nanos().saturating_add(span).min(last);
        time.advance_to(Moment::from_nanos(now));
        plain.advance(now.into());
        let what = format!("{cost} at {now} of {plain:?}");
        assert_eq!(
            u128::from(gate.snapshot().available()),
            plain.available(),
            "{what}"
        );
        // Something that fits, or nearly, more often than not.
        let cost = match cost % 3 {
            0 => plain.available() + u128::from(cost % 2),
            1 => plain.limit,
            _ => u128::from(cost),
        };
        let cost = cost.clamp(1, plain.limit);
        let asked = u64::try_from(cost).expect("at most the limit");
        let answer = gate.try_acquire(asked);
        let of_key = keyed.try_acquire(&1, asked).map(drop);
        assert_eq!(
            of_key,
            answer.as_ref().map(drop).map_err(Clone::clone),
            "{what}"
        );
        match (answer, plain.take(cost)) {
            (Ok(_), Ok(())) => {}
            (Err(denied), Err(after)) => {
                // What would come after the end of time never comes.
                let known = u128::from(now) + after < u128::from(u64::MAX);
                let said = denied.retry_after().map(|after| after.as_nanos());
                assert_eq!(said, known.then_some(after), "{what}");
            }
            (answer, expected) => panic!("{answer:?} and not {expected:?}: {what}"),
        }
        assert_eq!(
            u128::from(gate.snapshot().available()),
            plain.available(),
            "{what}"
        );
    }
}

const LAST: u64 = u64::MAX - (1 << 33);
const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

/// From a nanosecond to centuries, all sizes alike.
fn span() -> impl Strategy<Value = u64> {
    (0u64..63, any::<u64>()).prop_map(|(bits, any)| (1 << bits) + (any & ((1 << bits) - 1)))
}

fn units() -> impl Strategy<Value = u64> {
    prop_oneof![
        1u64..10,
        Just(6_172_839),
        Just(u64::MAX),
        Just(u64::MAX - 4),
        any::<u64>().prop_map(|units| units.max(1)),
    ]
}

fn period() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1),
        // Primes, so that nothing can be reduced.
        Just(7),
        Just(1_000_000_007),
        Just(999_999_999_989),
        Just(500_000_000_000),
        Just(100 * YEAR),
        span().prop_map(|nanos| nanos.min(1 << 62)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn far_apart_moments_are_counted_exactly(
        style in prop_oneof![Just(Style::Greedy), Just(Style::Interval), Just(Style::Window)],
        limit in units(),
        refill in units(),
        every in period(),
        start in prop_oneof![Just(0), Just(1_700_000_000_000_000_000), span()],
        steps in proptest::collection::vec((span(), any::<u64>()), 1..60),
    ) {
        let refill = if style == Style::Window { limit } else { refill };
        let quota = Quota::new(refill, Duration::from_nanos(every));
        let mut plain = Plain {
            style,
            limit: limit.into(),
            refill: refill.into(),
            every: every.into(),
            start: start.into(),
            now: start.into(),
            held: 0,
        };
        plain.held = plain.limit * plain.unit();
        match style {
            Style::Greedy => compare(TokenBucket::greedy(quota).burst(limit), plain, &steps),
            Style::Interval => compare(TokenBucket::interval(quota).burst(limit), plain, &steps),
            Style::Window => compare(FixedWindow::new(quota), plain, &steps),
        }
    }
}

/// The word of a bucket of whole nanoseconds is all of its point, and has room for 292 years.
#[test]
fn whole_nanoseconds_are_counted_exactly_on_both_sides_of_the_last_word() {
    let quota = Quota::new(1, Duration::from_nanos(1000));
    let mut plain = Plain {
        style: Style::Greedy,
        limit: 5,
        refill: 1,
        every: 1000,
        start: 7,
        now: 7,
        held: 5000,
    };
    // All, what is there and one more, one: each at steps of less than a token, around moments that are far apart.
    let near = (0..40).map(|step| (333, [1, 3, 2, 1, 2][step % 5]));
    let jumps = [1 << 61, 1 << 61, (1 << 62) - 10_000, 3000, 1 << 62];
    let steps: Vec<_> = (jumps.into_iter())
        .flat_map(|jump| std::iter::once((jump, 2)).chain(near.clone()))
        .collect();
    compare(TokenBucket::greedy(quota).burst(5), plain, &steps);
    plain.start = 1_700_000_000_000_000_000;
    plain.now = plain.start;
    compare(TokenBucket::greedy(quota).burst(5), plain, &steps);
}

/// Takes whatever there is, again and again for years, and tells how much it was and how long it took.
fn drain(quota: Quota, step: impl Fn(u64) -> u64) -> (u128, u128) {
    let time = ManualClock::starting_at(Moment::from_nanos(1_700_000_000_000_000_000));
    let start = time.now();
    // So deep that it never overflows.
    let rule = TokenBucket::greedy(quota).burst(u64::MAX).initial(0);
    let gate = Gate::builder(rule).clock(time.clock()).build();
    let mut taken = 0;
    for at in 0..20_000 {
        time.advance(Duration::from_nanos(step(at)));
        taken += u128::from(gate.take_up_to(u64::MAX).cost());
        assert!(gate.snapshot().available() == 0);
    }
    (taken, time.now().nanos_since(start).into())
}

#[test]
fn not_a_token_is_lost_or_gained_in_years() {
    let hour: u64 = 3_600_000_000_000;
    // 12345.678 a second is 6172839 in 500 seconds; the others cannot be reduced at all.
    let cases = [
        (6_172_839, 500_000_000_000, 2 * hour),
        (1, 999_999_999_989, hour),
        (999_983, 999_999_999_989, hour),
        (u64::MAX, 1_000_000_007, 1_000_000),
        (u64::MAX, 999_999_999_989, 997_000_000),
        (u64::MAX, 100 * YEAR, hour),
        (7, 11, 5_000_000_000),
    ];
    for (units, nanos, step) in cases {
        let quota = Quota::new(units, Duration::from_nanos(nanos));
        // Steps of every length, some of a few nanoseconds.
        let (taken, elapsed) = drain(quota, |at| step / (1 + at % 97) + at % 13);
        let expected = elapsed * u128::from(units) / u128::from(nanos);
        assert_eq!(taken, expected, "{units} in {nanos} ns");
    }
}
