//! How far `Smooth` is off, and how much states remember, as the documentation says.

use std::time::Duration;

use plimsoll::{
    Concurrency, FixedWindow, Moment, Packed, PenaltyBucket, Quota, Refresh, Rule, SlidingCounter,
    Smooth, TokenBucket,
};

/// The interval of three a second cannot be written down in floating point, nor in parts of a nanosecond.
#[test]
fn the_time_of_a_smooth_limit_stays_within_its_bound() {
    const DEMANDS: u64 = 10_000_000;
    let rule = Smooth::bursty(3.0, Duration::ZERO);
    let now = Moment::from_nanos(1_000);
    let mut state = rule.fresh(now);
    for _ in 0..DEMANDS {
        let (next, _) = rule.book(&state, now, 1).expect("it books any cost");
        state = next;
    }
    let (_, ready_at) = rule.book(&state, now, 1).expect("it books any cost");
    let exact = u128::from(DEMANDS) * 1_000_000_000;
    // In thirds of a nanosecond, which are whole.
    let off = (u128::from(ready_at.nanos_since(now)) * 3).abs_diff(exact);
    // 2^-17 ns for each, two parts in 2^53 of the time, and the whole nanosecond that a moment is.
    let bound = 3 * (u128::from(DEMANDS) >> 17) + (exact >> 52) + 3 + 3;
    assert!(
        off <= bound,
        "{off} thirds of a nanosecond, and at most {bound}"
    );
}

/// Two a second, warm after four seconds: four permits are stored at the price of a warm one, four more at up to three times
/// that. Idling stores eight in the four seconds.
#[test]
fn a_warm_up_is_cold_again_after_idling_as_long_as_it_takes_to_warm_up() {
    let rule = Smooth::warm_up(2.0, Duration::from_secs(4), 3.0);
    let mut now = Moment::from_nanos(1_000);
    let mut state = rule.fresh(now);
    let mut waits_after = |idle: Duration| {
        now = now.plus(idle);
        [(); 8].map(|()| {
            let (next, ready_at) = rule.book(&state, now, 1).expect("it books any cost");
            let micros = (ready_at.nanos_since(now) + 500) / 1_000;
            (state, now) = (next, ready_at);
            micros / 1_000
        })
    };
    let cold = [0, 1375, 1125, 875, 625, 500, 500, 500];
    // The last of eight is paid for in half a second.
    let (paid, second) = (Duration::from_millis(500), Duration::from_secs(1));
    assert_eq!(waits_after(Duration::ZERO), cold, "it begins cold");
    assert_eq!(waits_after(paid + 4 * second), cold);
    let warm = [0, 500, 500, 500, 500, 500, 500, 500];
    assert_eq!(waits_after(paid + 2 * second), warm, "only four are stored");
    let half = [0, 875, 625, 500, 500, 500, 500, 500];
    assert_eq!(waits_after(paid + 3 * second), half);
}

/// The book and the pages of the rules say how much is remembered.
#[test]
fn states_are_as_large_as_the_documentation_says() {
    let page = include_str!("../../../../docs/understand/algorithms.md");
    let says = |rule: &str, bytes: usize| {
        println!("{rule}: {bytes} bytes");
        let rule = format!("| `{rule}`");
        let said = format!("{bytes} bytes");
        let line = page.lines().find(|line| line.starts_with(&rule));
        let line = line.unwrap_or_else(|| panic!("the table has no {rule}"));
        assert!(line.contains(&said), "{said}: {line}");
    };
    says("Smooth", size_of::<<Smooth as Rule>::State>());
    says("PenaltyBucket", size_of::<<PenaltyBucket as Rule>::State>());
    says("Refresh", size_of::<<Refresh as Rule>::State>());
    says(
        "SlidingCounter",
        size_of::<<SlidingCounter as Rule>::State>(),
    );
    says("TokenBucket", size(&TokenBucket::per_second(5)));
    says(
        "FixedWindow",
        size(&FixedWindow::new(Quota::per_second(5)).aligned_to_epoch()),
    );
    says("Concurrency", size(&Concurrency::new(5)));
}

/// What a state takes: a word if it fits one.
fn size<R: Rule>(rule: &R) -> usize {
    let now = Moment::from_nanos(1_000);
    let mut state = rule.fresh(now);
    rule.take(&mut state, now, 1).expect("there is one");
    match R::Fast::pack(rule, &state, now) {
        Some(word) => size_of_val(&word),
        None => size_of::<R::State>(),
    }
}
