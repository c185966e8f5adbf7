//! Rates and concurrency as people write them by heart: what they come to, and what is said of mistakes.

use plimsoll_config::uses::Tier;
use plimsoll_config::{Config, Format};

#[track_caller]
fn printed(text: &str) -> String {
    let config = Config::from_str("a.yaml", text, Format::Yaml);
    config.unwrap_or_else(|error| panic!("{error}")).to_string()
}

#[track_caller]
fn same(short: &str, long: &str) {
    let (short, long) = (
        format!("limits: {{ a: {short} }}"),
        format!("limits: {{ a: {long} }}"),
    );
    assert_eq!(printed(&short), printed(&long), "{short}");
}

#[test]
fn short_forms_are_the_long_ones() {
    same(
        "{ rate: 100/s }",
        "{ kind: token_bucket, refill: 100, every: 1s, burst: 100, style: greedy }",
    );
    same("100/s", "{ rate: 100/s }");
    same(
        "'5000/hour'",
        "{ kind: token_bucket, refill: 5000, every: 1h, burst: 5000 }",
    );
    same(
        "{ rate: 5/10min, burst: 10 }",
        "{ kind: token_bucket, refill: 5, every: 10m, burst: 10 }",
    );
    same(
        "{ rate: 100k/min, burst: 2k }",
        "{ kind: token_bucket, refill: 100000, every: 1m, burst: 2000 }",
    );
    same(
        "{ rate: 0.5/s }",
        "{ kind: token_bucket, refill: 1, every: 2s, burst: 1 }",
    );
    same(
        "{ rate: 5/s, burst: 10, key: client, initial: 2, max_keys: 7 }",
        "{ kind: token_bucket, refill: 5, every: 1s, burst: 10, key: client, initial: 2, max_keys: 7 }",
    );
    same("{ concurrency: 10 }", "{ kind: concurrency, limit: 10 }");
    same(
        "{ concurrency: adaptive, max: 50, queue: { bound: 3 } }",
        "{ kind: adaptive, algorithm: verdict, max: 50, queue: { bound: 3 } }",
    );
    same(
        "{ kind: all, of: [{ rate: 1/s }, { concurrency: 2 }] }",
        "{ kind: all, of: [{ kind: token_bucket, refill: 1, every: 1s, burst: 1 }, { kind: concurrency, limit: 2 }] }",
    );
    same(
        "{ kind: smooth_bursty, rate: 2.5 }",
        "{ kind: smooth_bursty, rate: 2.5 }",
    );
}

#[test]
fn tiers_have_short_forms_too() {
    let text = "limits:
  a:
    rate: 60/min
    key: client
    tiers: { by: header:x-plan, pro: 1000/min, big: { rate: 5/s, burst: 50 }, internal: unlimited }
    overrides: { 10.0.0.7: 100/s, bot: blocked }
";
    let config =
        Config::from_str("a.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"));
    let uses = config.use_of("a").expect("there");
    let limits = uses
        .tiers()
        .filter(|(_, _, tier)| matches!(tier, Tier::Limit(_)));
    let names: Vec<&str> = limits.map(|(_, name, _)| name).collect();
    assert_eq!(names, ["pro", "big", "10.0.0.7"]);
    assert_eq!(printed(&config.to_string()), config.to_string());
}

#[test]
fn in_three_formats() {
    let yaml = printed("limits: { a: 10/s, b: { concurrency: 3 } }");
    for (text, format) in [
        (
            "[limits]\na = '10/s'\n[limits.b]\nconcurrency = 3\n",
            Format::Toml,
        ),
        (
            r#"{ "limits": { "a": "10/s", "b": { "concurrency": 3 } } }"#,
            Format::Json,
        ),
    ] {
        let config = Config::from_str("a", text, format).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.to_string(), yaml);
    }
}
