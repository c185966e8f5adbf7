//! All mistakes of a file are said at once, each with its place, and none that is only a consequence of another.
//!
//! Only the first used to be said: whoever had made five had to check the file five times.

use plimsoll_config::{Config, Format};

#[track_caller]
fn lines(text: &str, format: Format) -> Vec<String> {
    let error = Config::from_str("limits.yaml", text, format).expect_err("wrong");
    let lines: Vec<String> = error.lines().collect();
    assert_eq!(error.to_string(), lines.join("; "));
    let place = |line: &String| {
        let mut parts = line.split(':').skip(1).map(|part| part.parse::<usize>());
        (
            parts.next().and_then(Result::ok),
            parts.next().and_then(Result::ok),
        )
    };
    assert!(
        lines.iter().all(|line| place(line).1.is_some()),
        "{lines:#?}"
    );
    assert!(
        lines.is_sorted_by_key(place),
        "in the order of the file: {lines:#?}"
    );
    lines
}

#[track_caller]
fn check(text: &str, wanted: &[&str]) {
    let said = lines(text, Format::Yaml);
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    for (said, wanted) in said.iter().zip(wanted) {
        assert!(said.contains(wanted), "expected {wanted}\nfound    {said}");
    }
}

/// One of the sections is `stores`, of which nothing more is said without a client.
#[cfg(feature = "redis")]
#[test]
fn mistakes_of_every_sort_in_every_section() {
    check(
        "stores:
  main: { url: postgres://h }
  other: { namespace: x }
limiters:
  a: { kind: token_bucket, brust: 20, refill: 0, every: 60 }
  b: { kind: fixed_window, limit: many }
  c: { kind: concurency, limit: 1 }
  d: { kind: all, of: [e, nobody, { kind: concurrency, limit: -1 }] }
  e: { kind: concurrency, limit: 1, keyed: true, queue: { bonud: 1 } }
  f: { kind: memory, hard_limit: 80%, keyed: true, queue: { bound: 1 } }
providers:
  p: { request_cuont: a, network_bytes: nothing }
middleware:
  m: [a, b, missing]
routes:
  - { match: upload, middleware: m, bytes: z }
  - { match: /x, middelware: m }
  - { match: /y, middleware: zz }
",
        &[
            "2:16: stores.main.url: expected the address of a Redis",
            "3:10: stores.other: expected a `url`, or a `cluster`",
            "5:28: limiters.a.brust: unknown field of the limiter `token_bucket`, did you mean `burst`?",
            "5:47: limiters.a.refill: expected a whole number from 1",
            "5:57: limiters.a.every: expected a duration with its unit",
            "6:6: limiters.b.window: this field is missing",
            "6:35: limiters.b.limit: expected a whole number from 1",
            "7:14: limiters.c.kind: unknown word \"concurency\", did you mean `concurrency`?",
            "8:63: limiters.d.of[2].limit: expected a whole number",
            "9:59: limiters.e.queue.bonud: unknown field of a queue, did you mean `bound`?",
            "10:39: limiters.f.keyed: `memory` has no keys",
            "12:8: providers.p.request_cuont: unknown weight, did you mean `request_count`?",
            "12:41: providers.p.network_bytes: there is no limiter `nothing`",
            "14:13: middleware.m[2]: there is no limiter, provider or list of middleware `missing`",
            "16:14: routes[0].match: expected a path that begins with `/`",
            "16:44: routes[0].bytes: there is no limiter `z`",
            "17:18: routes[1].middelware: unknown field of a route, did you mean `middleware`?",
            "18:30: routes[2].middleware: there is no limiter, provider or list of middleware `zz`",
        ],
    );
}

#[test]
fn what_calls_something_broken_by_its_name_is_not_wrong() {
    check(
        "limiters: { a: { kind: concurrency }, both: { kind: all, of: [a] } }\nroutes: [{ match: /, middleware: a }]\n",
        &["limiters.a.limit: this field is missing"],
    );
    check(
        "limitors: { a: { kind: concurrency, limit: 1 } }\nroutes: [{ match: /, middleware: a }]\n",
        &["limitors: unknown field of a configuration file, did you mean `limiters`?"],
    );
    check(
        "stores: { main: { urk: redis://h } }\nlimiters: { a: { kind: concurrency, limit: 1, store: main } }\n",
        &["stores.main.urk: unknown field"],
    );
}

#[test]
fn every_field_that_is_missing_is_said() {
    check(
        "limiters:\n  a: { kind: token_bucket }\n  w: { kind: sliding_window }\n  n: { limit: 3 }\n",
        &[
            "limiters.a.",
            "limiters.a.",
            "limiters.a.",
            "limiters.w.",
            "limiters.w.",
            "limiters.w.",
            "limiters.n.kind: this field is missing",
        ],
    );
}

#[test]
fn several_cycles_and_members_are_said() {
    check(
        "limiters:
  a: { kind: all, of: [b] }
  b: { kind: all, of: [a] }
  c: { kind: all, of: [c] }
  d: { kind: all, of: [x, y] }
",
        &[
            "a cycle: a -> b -> a",
            "a cycle: c -> c",
            "no limiter `x`",
            "no limiter `y`",
        ],
    );
}

#[test]
fn the_other_formats_say_all_as_well() {
    let toml = "[limiters.a]\nkind = 'concurrency'\nlimit = 0\n[limiters.b]\nkind = 'fixed_window'\nlimit = 1\nwindow = 5\n";
    assert_eq!(lines(toml, Format::Toml).len(), 2);
    let json = r#"{ "limiters": { "a": { "kind": "concurrency", "limit": 0 }, "b": { "kind": "x" } }, "x": 1 }"#;
    assert_eq!(lines(json, Format::Json).len(), 3);
}

#[test]
fn words_of_other_libraries_are_translated() {
    for (word, wanted) in [
        (
            "leaky_bucket",
            "that is `token_bucket` here: `burst` is how much the bucket holds",
        ),
        ("LeakyBucket", "that is `token_bucket` here"),
        ("gcra", "that is `token_bucket` here"),
        ("semaphore", "that is `concurrency` here"),
        ("vegas", "`kind: adaptive` here"),
    ] {
        let text = format!("limiters: {{ a: {{ kind: {word}, limit: 1 }} }}");
        let error = Config::from_str("limits.yaml", &text, Format::Yaml).expect_err(word);
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(!error.to_string().contains("penalty_bucket"), "{error}");
    }
}

#[test]
fn a_file_with_thousands_of_mistakes_takes_no_time() {
    let limiters: String = (0..5_000)
        .map(|at| format!("  l{at}: {{ kind: concurrency, limt: 1 }}\n"))
        .collect();
    let routes: String = (0..5_000)
        .map(|at| format!("  - {{ match: /p{at}, middleware: m{at} }}\n"))
        .collect();
    for text in [
        format!("limiters:\n{limiters}"),
        format!(
            "limiters:\n{}routes:\n{routes}",
            limiters.replace("limt", "limit")
        ),
    ] {
        let error = Config::from_str("limits.yaml", &text, Format::Yaml).expect_err("wrong");
        assert_eq!(error.lines().count(), 30);
    }
}
