//! How far `Smooth` is off, and how much states remember, as the documentation says.

use std::time::Duration;

use plimsoll::{Moment, PenaltyBucket, Refresh, Rule, SlidingCounter, Smooth};

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

/// `README.md` and the pages of the rules say how much is remembered.
#[test]
fn states_are_as_large_as_the_documentation_says() {
    let readme = include_str!("../../../../README.md");
    let says = |rule: &str, bytes: usize| {
        println!("{rule}: {bytes} bytes");
        let rule = format!("`{rule}`");
        let said = format!("{bytes} bytes");
        let line = readme
            .lines()
            .find(|line| line.starts_with("| ") && line.contains(&rule));
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
    says("TokenBucket", size_of::<u64>());
    says("FixedWindow", size_of::<u64>());
    says("Concurrency", size_of::<u64>());
}
