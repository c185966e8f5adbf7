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
            "no request ever waits",
        ),
        (
            "kind: concurrency, limit: 1, queue: { bound: 1, timeout: 0s }",
            "limiters.a.queue.timeout: ",
            "no request ever waits",
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

#[track_caller]
fn file(text: &str) -> Vec<String> {
    let config = Config::from_str("a.yaml", text, Format::Yaml);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    config.warnings().collect()
}

#[test]
fn what_no_request_can_ever_do_is_warned_of() {
    let said = file(
        "limits:
  a: { rate: 3/s, cost: 5 }
  b: { rate: 3/s, burst: 5, cost: 5 }
  c: { concurrency: 2, cost: 3 }
  d: { rate: 9/s, cost: 5, tiers: { by: header:x, small: 4/s, same: 9/s, large: 99/s } }
  e: { concurrency: adaptive, cost: 500 }
  f: { rate: 3/s, cost: { estimate: content_length, default: 4 } }
  g: { rate: 3/s, key: client, overrides: { 10.0.0.1: { kind: token_bucket, burst: 3, refill: 3, every: 1s } } }
client: { header: cf-connecting-ip }
",
    );
    assert_eq!(
        said,
        [
            "a.yaml:2:25: limits.a.cost: no request ever fits: it costs 5, and at most 3 are granted at once",
            "a.yaml:4:30: limits.c.cost: no request ever fits: it costs 3, and at most 2 are granted at once",
            "a.yaml:5:58: limits.d.tiers.small: no request ever fits: it costs 5, and at most 4 are granted at once",
            "a.yaml:5:69: limits.d.tiers.same: this is the same limit, so it has no effect",
            "a.yaml:7:25: limits.f.cost: no request ever fits: it costs 4, and at most 3 are granted at once",
            "a.yaml:8:55: limits.g.overrides.\"10.0.0.1\": this is the same limit, so it has no effect",
            "a.yaml:9:19: client.header: no proxy is trusted, so this field is ignored: did you forget `proxies`?",
        ]
    );
}

#[test]
fn limits_that_no_route_uses_are_warned_of_if_there_are_routes() {
    let limits = "limits: { a: 1/s, b: 1/s, c: { kind: all, of: [d] }, d: 1/s, e: 1/s, f: 1/s, g: 1/s }\n\
                  providers: { p: { request_count: e } }\nmiddleware: { m: [f] }\n";
    assert_eq!(file(limits), Vec::<String>::new());
    assert_eq!(
        file(&format!(
            "{limits}routes: [{{ match: /, limits: [a], bytes: b }}]\n"
        )),
        [
            "a.yaml:1:27: limits.c: no route uses this limit",
            "a.yaml:1:78: limits.g: no route uses this limit",
        ]
    );
}

#[test]
fn a_gateway_whose_routes_leave_requests_out_is_warned_of() {
    let text = |path: &str| {
        format!(
            "gateway: {{ upstreams: {{ app: {{ to: http://127.0.0.1 }} }} }}\n\
             limits: {{ a: 5/s }}\nroutes: [{{ match: {path}, limits: [a] }}]"
        )
    };
    assert_eq!(file(&text("/**")), [""; 0]);
    let [warning] = &file(&text("/api/**"))[..] else {
        panic!("one");
    };
    assert!(
        warning.contains("no route is for every request"),
        "{warning}"
    );
}

#[test]
fn routes_that_no_request_reaches_are_warned_of() {
    let check = |routes: &[&str], wanted: &[(usize, usize)]| {
        let list: Vec<String> = routes
            .iter()
            .map(|it| format!("  - {{ {it}, limits: a }}\n"))
            .collect();
        let said = file(&format!("limits: {{ a: 1/s }}\nroutes:\n{}", list.concat()));
        let wanted: Vec<String> = wanted
            .iter()
            .map(|(route, by)| format!("routes[{route}].match: no request comes here: routes[{by}] matches all of them before"))
            .collect();
        assert_eq!(said.len(), wanted.len(), "{said:#?}");
        for (said, wanted) in said.iter().zip(&wanted) {
            assert!(
                said.ends_with(wanted.as_str()),
                "expected {wanted}\nfound    {said}"
            );
        }
    };
    check(
        &["match: /**", "match: /a", "match: /a/**"],
        &[(1, 0), (2, 0)],
    );
    check(&["match: /a", "match: /a/**", "match: /**"], &[]);
    check(
        &["match: /a/*", "match: /a/b", "match: /a/", "match: /a/b/c"],
        &[(1, 0)],
    );
    check(
        &[
            "match: /*/b/**",
            "match: /a/b",
            "match: /a/b/c",
            "match: /a/c",
        ],
        &[(1, 0), (2, 0)],
    );
    check(&["match: /a/b", "match: /a/*"], &[]);
    check(
        &[
            "match: /**, methods: [GET]",
            "match: /a",
            "match: /a/b, methods: [GET]",
        ],
        &[(2, 0)],
    );
    check(
        &[
            "match: /**, methods: [GET, PUT]",
            "match: /a, methods: [PUT, POST]",
        ],
        &[],
    );
    check(
        &[
            "match: /**, hosts: ['*.a.b']",
            "match: /a, hosts: [x.a.b]",
            "match: /b, hosts: [a.b]",
        ],
        &[(1, 0)],
    );
    check(
        &[
            "match: /**, headers: { x: present }",
            "match: /a, headers: { X: '1' }",
            "match: /a",
        ],
        &[(1, 0)],
    );
}
