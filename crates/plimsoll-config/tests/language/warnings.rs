//! What is allowed and surely not meant is said, and nothing else is.

use plimsoll_config::{Config, Format};

fn warnings(limiter: &str) -> Vec<String> {
    let text = format!("limiters: {{ a: {{ {limiter} }} }}");
    let config = Config::from_str("a.yaml", &text, Format::Yaml);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    config.warnings().collect()
}

#[test]
fn odd_values_are_warned_of_with_their_place() {
    for (limiter, field, said) in [
        // In files `interval` used to be the default: this was 5 a second without a word.
        (
            "kind: token_bucket, burst: 5, refill: 100, every: 1s, style: interval",
            "limiters.a.burst: ",
            "this is 5 every 1s",
        ),
        (
            "kind: bandwidths, limits: [{ burst: 3, refill: 4, every: 1m, style: interval }]",
            "limiters.a.limits[0].burst: ",
            "or `burst: 4`?",
        ),
        (
            "kind: bandwidths, limits: [{ burst: 10, refill: 10, every: 1s }, { burst: 20, refill: 20, every: 1s }]",
            "limiters.a.limits[1]: ",
            "never limits anything",
        ),
        (
            "kind: sliding_log, limit: 10, window: 1s, min_gap: 500ms",
            "limiters.a.min_gap: ",
            "never reached",
        ),
        (
            "kind: token_bucket, burst: 1, refill: 1, every: 60ns",
            "limiters.a.every: ",
            "did you mean seconds?",
        ),
        (
            "kind: fixed_window, limit: 1, window: 999us",
            "limiters.a.window: ",
            "shorter than the clock counts",
        ),
        (
            "kind: concurrency, limit: 1, queue: { bound: 0 }",
            "limiters.a.queue.bound: ",
            "nobody ever waits",
        ),
        (
            "kind: concurrency, limit: 1, queue: { bound: 1, timeout: 0s }",
            "limiters.a.queue.timeout: ",
            "nobody ever waits",
        ),
        (
            "kind: all, of: [{ kind: token_bucket, burst: 5, refill: 6, every: 1s, style: interval }]",
            "limiters.a.of[0].burst: ",
            "5 fit",
        ),
    ] {
        let found = warnings(limiter);
        assert_eq!(found.len(), 1, "{limiter}: {found:#?}");
        assert!(found[0].starts_with("a.yaml:1:"), "{}", found[0]);
        assert!(
            found[0].contains(field) && found[0].contains(said),
            "{}",
            found[0]
        );
    }
}

#[test]
fn what_is_meant_is_not_warned_of() {
    for limiter in [
        "kind: token_bucket, burst: 5, refill: 100, every: 1s",
        "kind: token_bucket, burst: 100, refill: 100, every: 1s, style: interval",
        "kind: token_bucket, burst: 100, refill: 5, every: 1s, style: interval",
        "kind: bandwidths, limits: [{ burst: 10, refill: 10, every: 1s }, { burst: 100, refill: 100, every: 1m }]",
        "kind: sliding_log, limit: 10, window: 1s, min_gap: 50ms",
        "kind: sliding_log, limit: 1, window: 1s, min_gap: 1s",
        "kind: concurrency, limit: 1, queue: { bound: 1 }",
        "kind: fixed_window, limit: 1, window: 1ms",
    ] {
        assert_eq!(warnings(limiter), [""; 0], "{limiter}");
    }
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config");
    for name in ["server.yaml", "adaptive.toml", "batches.json"] {
        let config = Config::from_file(examples.join(name)).expect("right");
        assert_eq!(config.warnings().count(), 0, "{name}");
    }
}
