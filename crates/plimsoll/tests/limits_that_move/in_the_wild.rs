//! What breaks limits in the wild.

use super::*;

/// Gradient2 as published is NaN after this, for ever.
#[test]
fn a_latency_of_zero_teaches_nothing() {
    let mut gradient2 = Gradient2::default();
    let mut vegas = Vegas::default();
    for limit in [&mut gradient2 as &mut dyn Limit, &mut vegas] {
        limit.sample(&took(0, 20));
        limit.sample(&took(10, 20));
        let before = format!("{limit:?}");
        limit.sample(&took(0, 20));
        assert_eq!(format!("{limit:?}"), before);
        for _ in 0..100 {
            let in_flight = limit.limit();
            limit.sample(&took(10, in_flight));
        }
        assert!(limit.limit() > 50, "{limit:?}");
    }
}

#[test]
fn vegas_heeds_a_failure_that_took_no_time() {
    let mut limit = Vegas::default();
    assert_eq!(after(&mut limit, &[overload(took(0, 1)); 2]), 18);
    assert_eq!(after(&mut limit, &[overload(took(0, 1)); 100]), 1);
}

#[test]
fn no_time_at_all_is_a_millisecond_to_the_latency_gradient() {
    let mut limit = LatencyGradient::default();
    limit.sample(&took(0, 1));
    assert_eq!((limit.average_ms(), limit.least_average_ms()), (1, Some(1)));
}

#[test]
fn windows_begin_at_the_origin_of_the_clock() {
    let mut limit = Windowed::new(Aimd::default());
    for n in 0..1000 {
        limit.sample(&sample(n * 10 * MILLI, MILLI, 20));
    }
    assert!(limit.limit() > 25);
}

#[test]
fn a_clock_that_leaps_and_comes_back_does_not_stop_the_windows() {
    fn ten_seconds(limit: &mut impl Limit, from: u64) -> u64 {
        let before = limit.limit();
        for n in 0..1000 {
            limit.sample(&sample(from + n * 10 * MILLI, MILLI, 100));
        }
        limit.limit() - before
    }
    let mut limit = Windowed::new(Aimd::default());
    for from in [0, u64::MAX / 2, 20 * SECOND] {
        assert!(ten_seconds(&mut limit, from) >= 9);
    }
    // Work that began before the leap and ended in it: an hour is lost, not a hundred years.
    limit.sample(&sample(40 * SECOND, 1_000_000 * HOUR, 100));
    ten_seconds(&mut limit, 50 * SECOND);
    assert!(ten_seconds(&mut limit, 41 * SECOND + HOUR) >= 9);
}

#[test]
fn a_sample_a_day() {
    for mut limit in all(1, 20, 200) {
        for day in 0..1000 {
            let in_flight = limit.limit();
            limit.sample(&sample(day * 24 * HOUR, 10 * MILLI, in_flight));
            limit.tick(load(in_flight, 1));
        }
        assert!((20..=200).contains(&limit.limit()), "{limit:?}");
    }
}

#[test]
fn nothing_but_failures() {
    for mut limit in all(2, 20, 200) {
        for n in 0..100_000 {
            limit.sample(&overload(sample(n * MILLI, 10 * MILLI, 20)));
        }
        assert!((2..=200).contains(&limit.limit()), "{limit:?}");
    }
}
