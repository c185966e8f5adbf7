//! Durations have units. `every: 60` used to pass the check and to mean 60 nanoseconds, which switches a limit off.

use plimsoll_config::{Config, Format};

/// Every field that holds a duration, in a limiter that is right but for it.
#[cfg(feature = "redis")]
const FIELDS: [(&str, &str); 22] = [
    ("window", "kind: fixed_window, limit: 1"),
    ("window", "kind: sliding_window, limit: 1, segments: 1"),
    ("window", "kind: sliding_log, limit: 1"),
    ("min_gap", "kind: sliding_log, limit: 1, window: 1m"),
    ("window", "kind: sliding_counter, limit: 1"),
    ("every", "kind: token_bucket, burst: 1, refill: 1"),
    ("every", "kind: penalty_bucket, burst: 1, refill: 1"),
    ("soft_window", "kind: penalty_bucket, burst: 1, refill: 1"),
    ("lockout", "kind: penalty_bucket, burst: 1, refill: 1"),
    ("max_burst", "kind: smooth_bursty, rate: 1"),
    ("warmup", "kind: smooth_warmup, rate: 1"),
    ("period", "kind: refresh, limit: 1"),
    ("max_wait", "kind: refresh, limit: 1, period: 1m"),
    ("check_interval", "kind: memory, hard_limit: 80%"),
    ("check_interval", "kind: cpu, threshold: 80%"),
    ("smoothing", "kind: cpu, threshold: 80%"),
    ("timeout", "kind: adaptive, algorithm: aimd"),
    (
        "min_rtt",
        "kind: adaptive, algorithm: windowed, delegate: { algorithm: vegas }",
    ),
    (
        "min_window",
        "kind: adaptive, algorithm: windowed, delegate: { algorithm: vegas }",
    ),
    (
        "max_window",
        "kind: adaptive, algorithm: windowed, delegate: { algorithm: vegas }",
    ),
    ("lease", "kind: concurrency, limit: 1, store: main"),
    (
        "every",
        "kind: token_bucket, burst: 1, refill: 1, store: main",
    ),
];

#[cfg(feature = "redis")]
fn read(limiter: &str) -> Result<Config, plimsoll_config::ConfigError> {
    let text = format!(
        "stores: {{ main: {{ url: redis://127.0.0.1 }} }}\nlimiters: {{ a: {{ {limiter} }} }}\n"
    );
    Config::from_str("limits.yaml", &text, Format::Yaml)
}

#[cfg(feature = "redis")]
#[test]
fn no_field_takes_a_number_without_a_unit() {
    for (field, limiter) in FIELDS {
        for number in ["1", "60", "7000", "3600000000000", "\"60\""] {
            let error = read(&format!("{limiter}, {field}: {number}")).expect_err(limiter);
            let path = format!("limiters.a.{field}");
            assert_eq!(error.field(), Some(path.as_str()), "{error}");
            assert!(error.to_string().contains("with its unit"), "{error}");
            assert!(error.to_string().contains("did you mean `"), "{error}");
        }
        let good = format!("{limiter}, {field}: 1s");
        assert!(read(&good).is_ok(), "{good}: {:?}", read(&good).err());
    }
}

#[test]
fn what_is_suggested_is_what_people_mean_by_such_a_number() {
    for (written, meant) in [
        ("60", "60s"),
        ("250", "250s"),
        ("5000", "5000ms"),
        ("1000000000", "1000000000ns"),
        ("60sec", "60s"),
        ("5 min", "5m"),
        ("10µs", "10us"),
    ] {
        let text =
            format!("limiters: {{ a: {{ kind: fixed_window, limit: 1, window: {written} }} }}");
        let error = Config::from_str("a.yaml", &text, Format::Yaml).expect_err(written);
        let hint = format!("did you mean `{meant}`?");
        assert!(error.to_string().ends_with(&hint), "{error}");
    }
}

#[test]
fn microseconds_and_nanoseconds_are_units_and_are_printed_as_such() {
    let text = "limiters: { a: { kind: sliding_log, limit: 1, window: 1500us, min_gap: 7ns } }";
    let config = Config::from_str("a.yaml", text, Format::Yaml).expect("right");
    let printed = config.to_string();
    assert!(printed.contains("window: 1500us"), "{printed}");
    assert!(printed.contains("min_gap: 7ns"), "{printed}");
    let again = Config::from_str("b.yaml", &printed, Format::Yaml).expect("right");
    assert_eq!(again.to_string(), printed);
}

#[test]
fn nothing_is_the_same_in_every_unit() {
    let text = "limiters: { a: { kind: sliding_log, limit: 1, window: 1s, min_gap: 0 } }";
    assert!(Config::from_str("a.yaml", text, Format::Yaml).is_ok());
}
