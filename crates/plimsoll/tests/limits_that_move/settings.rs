//! Settings that cannot be, and what is said about them.

use super::*;

/// Every rule broken, and what is said.
#[test]
fn settings_that_cannot_be() {
    fn of<L: Limit>(result: Result<L, InvalidLimit>) -> String {
        result.expect_err("a setting is wrong").to_string()
    }
    let aimd = Aimd::builder;
    let vegas = Vegas::builder;
    let gradient2 = Gradient2::builder;
    let windowed = || Windowed::builder(Aimd::default());
    let latency = LatencyGradient::builder;
    let millis = Duration::from_millis;
    let table = [
        (of(aimd().min(0).build()), "`min` is 0: expected at least 1"),
        (
            of(aimd().initial(0).build()),
            "`initial` is 0: expected at least 1",
        ),
        (of(aimd().max(0).build()), "`max` is 0: expected at least 1"),
        (
            of(aimd().max(19).build()),
            "`max` is 19: expected at least the minimum",
        ),
        (
            of(aimd().initial(19).build()),
            "`initial` is 19: expected from the minimum to the maximum",
        ),
        (
            of(aimd().initial(201).build()),
            "`initial` is 201: expected from the minimum to the maximum",
        ),
        (
            of(aimd().backoff(0.49).build()),
            "`backoff` is 0.49: expected at least 0.5 and below 1",
        ),
        (
            of(aimd().backoff(1.0).build()),
            "`backoff` is 1: expected at least 0.5 and below 1",
        ),
        (
            of(aimd().backoff(f64::NAN).build()),
            "`backoff` is NaN: expected at least 0.5 and below 1",
        ),
        (
            of(aimd().timeout(Duration::ZERO).build()),
            "`timeout` is 0ns: expected at least 1ns",
        ),
        (
            of(vegas().min(0).build()),
            "`min` is 0: expected at least 1",
        ),
        (
            of(vegas().initial(1001).build()),
            "`initial` is 1001: expected from the minimum to the maximum",
        ),
        (
            of(vegas().smoothing(0.0).build()),
            "`smoothing` is 0: expected above 0 and at most 1",
        ),
        (
            of(vegas().smoothing(1.1).build()),
            "`smoothing` is 1.1: expected above 0 and at most 1",
        ),
        (
            of(vegas().smoothing(f64::NAN).build()),
            "`smoothing` is NaN: expected above 0 and at most 1",
        ),
        (
            of(vegas().probe_multiplier(0).build()),
            "`probe_multiplier` is 0: expected at least 1",
        ),
        (
            of(vegas().probe_jitter([0.5, 0.0]).build()),
            "`probe_jitter` is 0: expected only numbers above 0",
        ),
        (
            of(vegas().probe_jitter([f64::INFINITY]).build()),
            "`probe_jitter` is inf: expected only numbers above 0",
        ),
        (
            of(gradient2().max(0).build()),
            "`max` is 0: expected at least 1",
        ),
        (
            of(gradient2().min(21).build()),
            "`initial` is 20: expected from the minimum to the maximum",
        ),
        (
            of(gradient2().smoothing(-1.0).build()),
            "`smoothing` is -1: expected above 0 and at most 1",
        ),
        (
            of(gradient2().long_window(0).build()),
            "`long_window` is 0: expected at least 1",
        ),
        (
            of(gradient2().tolerance(0.9).build()),
            "`tolerance` is 0.9: expected a number of at least 1",
        ),
        (
            of(gradient2().tolerance(f64::NAN).build()),
            "`tolerance` is NaN: expected a number of at least 1",
        ),
        (
            of(windowed().min_window(millis(99)).build()),
            "`min_window` is 99ms: expected at least 100ms",
        ),
        (
            of(windowed().max_window(millis(99)).build()),
            "`max_window` is 99ms: expected at least 100ms",
        ),
        (
            of(windowed().max_window(millis(999)).build()),
            "`max_window` is 999ms: expected at least the least window",
        ),
        (
            of(windowed().window_size(9).build()),
            "`window_size` is 9: expected at least 10",
        ),
        (
            of(latency().min(0).build()),
            "`min` is 0: expected at least 1",
        ),
        (
            of(latency().initial(0).build()),
            "`initial` is 0: expected at least 1",
        ),
        (
            of(latency().max(0).build()),
            "`max` is 0: expected at least 1",
        ),
        (
            of(latency().min_queue(0).build()),
            "`min_queue` is 0: expected at least 1",
        ),
        (
            of(latency().initial_queue(0).build()),
            "`initial_queue` is 0: expected at least 1",
        ),
        (
            of(latency().tolerance(1.0).build()),
            "`tolerance` is 1: expected a number above 1",
        ),
        (
            of(latency().tolerance(f64::NAN).build()),
            "`tolerance` is NaN: expected a number above 1",
        ),
        (
            of(latency().max(5).build()),
            "`max` is 5: expected above the minimum",
        ),
        (
            of(latency().initial(4).build()),
            "`initial` is 4: expected from the minimum to the maximum",
        ),
        (
            of(latency().initial(501).build()),
            "`initial` is 501: expected from the minimum to the maximum",
        ),
        (
            of(latency().initial_queue(19).build()),
            "`initial_queue` is 19: expected at least the minimum queue",
        ),
    ];
    for (message, expected) in table {
        assert_eq!(message, expected);
    }
}

/// Of several broken rules the one that comes first is named.
#[test]
fn the_rules_of_the_latency_gradient_are_checked_in_order() {
    let mut broken = LatencyGradient::builder()
        .min(0)
        .initial(0)
        .max(0)
        .min_queue(0)
        .initial_queue(0)
        .tolerance(1.0);
    let mut named = Vec::new();
    let mut mend = |next: fn(Builder<LatencyGradient>) -> Builder<LatencyGradient>| {
        let error = broken.clone().build().expect_err("a rule is broken");
        named.push(format!("{} {}", error.field(), error.value()));
        broken = next(broken.clone());
    };
    mend(|broken| broken.min(7));
    mend(|broken| broken.initial(3));
    mend(|broken| broken.max(7));
    mend(|broken| broken.min_queue(2));
    mend(|broken| broken.initial_queue(1));
    mend(|broken| broken.tolerance(1.1));
    mend(|broken| broken.max(8));
    mend(|broken| broken.initial(8));
    mend(|broken| broken.initial_queue(2));
    let expected = [
        "min 0",
        "initial 0",
        "max 0",
        "min_queue 0",
        "initial_queue 0",
        "tolerance 1",
        "max 7",
        "initial 3",
        "initial_queue 1",
    ];
    assert_eq!(named, expected);
    assert!(broken.build().is_ok());
    let edge = LatencyGradient::builder().min(1).initial(1).max(2);
    let edge = edge.tolerance(1.1).min_queue(1).initial_queue(1).build();
    assert!(edge.is_ok());
}
