//! The JSON Schema: current, true of the examples, and untrue of what is wrong in a way that a schema can say.

use plimsoll_config::schema;
use serde_json::Value;

use crate::valid::{self, assert_current, project};

fn root() -> Value {
    serde_json::from_str(&schema()).expect("JSON")
}

#[test]
fn the_file_in_the_repository_is_the_one_the_types_make() {
    let run = "run: plimsoll check --schema > schema/plimsoll.schema.json";
    assert_current("plimsoll.schema.json", &schema(), run);
}

#[test]
fn examples_are_valid() {
    for name in [
        "server.yaml",
        "batches.json",
        "fleet.yaml",
        "gateway.yaml",
        "kinds.yaml",
    ] {
        let text = std::fs::read_to_string(project("examples/config").join(name)).expect("text");
        assert_eq!(check(&text), Ok(()), "{name}");
    }
    // Printed as YAML, TOML can be looked at too, and every default with it.
    for name in ["adaptive.toml", "server.yaml"] {
        let config = plimsoll_config::Config::from_file(project("examples/config").join(name));
        assert_eq!(check(&config.expect("right").to_string()), Ok(()), "{name}");
    }
}

#[test]
fn what_a_schema_can_see_is_refused() {
    for bad in [
        "limitors: {}",
        "limiters: { a: { kind: concurrency } }",
        "limiters: { a: { kind: concurency, limit: 1 } }",
        "limiters: { a: { kind: concurrency, limit: 0 } }",
        "limiters: { a: { kind: concurrency, limit: 1, burst: 1 } }",
        "limiters: { a: { kind: concurrency, limit: 1, queue: { bonud: 1 } } }",
        "limiters: { a: { kind: concurrency, limit: 1, queue: ~ } }",
        "limiters: { a: { kind: fixed_window, limit: 1, window: 5w } }",
        "limiters: { a: { kind: fixed_window, limit: 1, window: 0s } }",
        "limiters: { a: { kind: fixed_window, limit: 1, window: 60 } }",
        "limiters: { a: { kind: sliding_log, limit: 1, window: 1s, min_gap: 5 } }",
        "limiters: { a: { kind: adaptive, algorithm: vegas, intial: 1 } }",
        "limiters: { a: { kind: adaptive, algorithm: windowed, delegate: { algorithm: vega } } }",
        "limiters: { a: { kind: all, of: [{ kind: cpu, threshold: 101% }] } }",
        "limiters: { 'a b': { kind: concurrency, limit: 1 } }",
        "providers: { p: { request_count: [a] } }",
        "routes: [{ middleware: a }]",
        "stores: { main: { namespace: shop } }",
        "stores: { main: { url: postgres://127.0.0.1 } }",
        "stores: { main: { url: redis://127.0.0.1, cluster: [redis://127.0.0.1] } }",
        "limiters: { a: { kind: smooth_bursty, rate: 1, store: main } }",
        "limiters: { a: { kind: fixed_window, limit: 1, window: 1s, store: main, lease: 1s } }",
        "limiters: { a: { kind: concurrency, limit: 1, store: main, outage: maybe } }",
        "limiters: { a: { kind: concurrency, limit: 1, store: main, outage: { share: 1 } } }",
        "limiters: { a: { kind: concurrency, limit: 1, store: main, borrow: { mots: 1 } } }",
    ] {
        assert!(check(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_new_is_known() {
    for good in [
        "limits: { a: 100/s, b: { rate: 5/10min, burst: 10k }, c: { concurrency: 3, queue: { bound: 1 } } }",
        "limits: { a: { concurrency: adaptive, max: 9 }, b: { kind: all, of: [{ rate: 1/s }, a] } }",
        "limits: { a: { rate: 0.5/s, key: [client, 'form:user'], cost: { status: [401, 5xx, 400-404] }, mode: shadow } }",
        "limits: { a: { rate: 1/s, key: client, tiers: { by: header:x, pro: 9/s, x: unlimited, y: { concurrency: 1 } } } }",
        "limits: { a: { rate: 1/s, key: client, overrides: { 10.0.0.7: 1/s, 'a b': blocked }, without_key: skip } }",
        "limits: { a: { rate: 1/s, cost: { estimate: 'json:/a', actual: usage, default: 1, max: 100k }, priority: critical } }",
        "limits: { a: { kind: fixed_window, limit: 1, window: 1s, cost: usage, answer: { status: 503, headers: { x: 1 } } } }",
        "routes: [{ match: [/a, /b/**], methods: [GET], hosts: ['*.a.b'], headers: { x: present }, limits: [a], name: r }]",
        "include: [a.yaml]\nx-any: { b: [1] }\nstores: { a: { url: '${URL}' }, b: { url: { env: URL } }, c: { cluster: [{ file: /x }] } }",
        "partners: { a: { rate: 10/s, queue: { bound: 1 } }, b: { learn: 0.5/s, min: 1/10min, max: 1k/s, max_pause: 1m } }",
        "proxies: [10.0.0.0/8, '::1']\nipv6_prefix: 64\nclient: { header: cf-connecting-ip }\nanswer: { body: x }",
    ] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for bad in [
        "limits: { a: 100/fortnight }",
        "limits: { a: 100 }",
        "limits: { a: { rate: 100 } }",
        "limits: { a: { rate: 1/s, refill: 3 } }",
        "limits: { a: { rate: 1/s, concurrency: 3 } }",
        "limits: { a: { concurrency: 0 } }",
        "limits: { a: { rate: 1/s, key: ip } }",
        "limits: { a: { rate: 1/s, cost: header } }",
        "limits: { a: { rate: 1/s, cost: { status: [700] } } }",
        "limits: { a: { rate: 1/s, mode: dry } }",
        "limits: { a: { rate: 1/s, tiers: { pro: 1/s } } }",
        "limits: { a: { rate: 1/s, tiers: { by: client, pro: free } } }",
        "limits: { a: { rate: 1/s, answer: { status: 200 } } }",
        "limits: { a: { rate: 1/s, priority: high } }",
        "stores: { a: { url: { var: URL } } }",
        "partners: { a: { lern: 10/s } }",
        "partners: { a: { learn: 10 } }",
        "proxies: [everybody]",
        "client: { field: x }",
    ] {
        assert!(check(bad).is_err(), "{bad}");
    }
}

#[test]
fn every_field_says_what_it_is_for() {
    let root = root();
    let limiter = &root["definitions"]["Limiter"]["oneOf"];
    let branches = limiter.as_array().expect("kinds");
    assert_eq!(
        branches.len(),
        16 + 6 + 3,
        "kinds, algorithms, and short forms"
    );
    for branch in branches {
        assert_eq!(branch["additionalProperties"], false);
        for (name, field) in branch["properties"].as_object().expect("fields") {
            let described = field["description"].is_string() || field["const"].is_string();
            assert!(described, "{name} of {}", branch["properties"]["kind"]);
        }
    }
}

/// Whether a YAML text is what the schema says.
fn check(text: &str) -> Result<(), String> {
    valid::check(&root(), text)
}
