//! A file of ten thousand limits and a thousand routes is read and checked in a moment.

use std::fmt::Write;
use std::time::Duration;

use plimsoll_config::{Config, Format};

/// Of this size a file that somebody's program writes may be.
fn large() -> String {
    let mut text = "limits:\n".to_owned();
    for at in 0..10_000 {
        let form = match at % 4 {
            0 => format!("{}/s", at + 1),
            1 => "{ rate: 5/10min, burst: 10, key: [client, \"form:user\"], cost: 2 }".to_owned(),
            2 => "{ concurrency: 7, queue: { bound: 5 } }".to_owned(),
            _ => "{ rate: 60/min, key: client, tiers: { by: header:x-plan, pro: 1000/min, internal: unlimited } }".to_owned(),
        };
        writeln!(text, "  limit_{at}: {form}").expect("text");
    }
    text += "routes:\n";
    for at in 0..1_000 {
        // Ten for each route, and patterns that many others begin with.
        let limits: Vec<String> = (0..10).map(|n| format!("limit_{}", at * 10 + n)).collect();
        let (group, limits) = (at % 7, limits.join(", "));
        writeln!(
            text,
            "  - {{ match: /api/*/group_{group}/{at}/**, methods: [GET, POST], hosts: [h{at}.example.com], limits: [{limits}] }}"
        )
        .expect("text");
    }
    text
}

#[test]
fn ten_thousand_limits_and_a_thousand_routes_are_checked_in_a_moment() {
    let text = large();
    #[expect(clippy::disallowed_methods, reason = "this is about real time")]
    let start = std::time::Instant::now();
    let config = Config::from_str("large.yaml", &text, Format::Yaml)
        .unwrap_or_else(|error| panic!("{error}"));
    let took = start.elapsed();
    assert_eq!(
        (config.limiters().count(), config.route_specs().len()),
        (10_000, 1_000)
    );
    assert_eq!(config.warnings().collect::<Vec<_>>(), Vec::<String>::new());
    // Without optimisation, and beside other tests, it takes longer.
    let most = if cfg!(debug_assertions) { 30 } else { 1 };
    assert!(took < Duration::from_secs(most), "{took:?}");
    println!("{took:?}");
}

/// Patterns that share all their beginnings are the worst case of looking for routes that no request reaches.
#[test]
fn routes_that_resemble_each_other_are_checked_in_a_moment() {
    let mut text = "limits: { a: 1/s }\nroutes:\n".to_owned();
    for at in 0..4_000_u32 {
        let segments: Vec<&str> = (0..12)
            .map(|bit| if at >> bit & 1 == 1 { "*" } else { "x" })
            .collect();
        writeln!(
            text,
            "  - {{ match: /{}, limits: a, headers: {{ x-{at}: present }} }}",
            segments.join("/")
        )
        .expect("text");
    }
    #[expect(clippy::disallowed_methods, reason = "this is about real time")]
    let start = std::time::Instant::now();
    let config = Config::from_str("large.yaml", &text, Format::Yaml)
        .unwrap_or_else(|error| panic!("{error}"));
    let took = start.elapsed();
    assert_eq!(config.route_specs().len(), 4_000);
    let most = if cfg!(debug_assertions) { 30 } else { 2 };
    assert!(took < Duration::from_secs(most), "{took:?}");
    println!("{took:?}");
}
