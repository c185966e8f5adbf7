//! Files that are right: the examples, what they come to, and the words they share with scenario files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plimsoll::Clock;
use plimsoll_config::{Config, Format, Part};
use plimsoll_kinds::{LimiterKind, Weight};
use plimsoll_spec::{Entry, Node, Value as Tree, parse};
use serde_json::Value;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> Vec<PathBuf> {
    let files = std::fs::read_dir(project().join("examples/config")).expect("examples");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    // Stores need a client.
    files.retain(|file| cfg!(feature = "redis") || !file.ends_with("fleet.yaml"));
    files.sort();
    assert!(files.len() >= 3);
    files
}

fn yaml(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"))
}

/// Found by `fuzz::examples_with_mistakes`: it was printed as a variable.
#[test]
fn what_only_looks_like_a_variable_prints_as_what_it_is() {
    let text = "limits: { api: { rate: 5/s } }\nanswer: { body: \"pay $${AMOUNT} or $$${MORE}\" }";
    let config = yaml(text);
    let printed = config.to_string();
    assert!(printed.contains("pay $${AMOUNT} or $$${MORE}"), "{printed}");
    assert_eq!(yaml(&printed).to_string(), printed);
}

#[test]
fn the_examples_are_right_and_can_be_built() {
    for file in examples() {
        let config = Config::from_file(&file).unwrap_or_else(|error| panic!("{error}"));
        if cfg!(target_os = "linux") {
            config
                .build(&Clock::system())
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn printed_a_configuration_reads_as_the_same_one() {
    for file in examples() {
        let config = Config::from_file(&file).unwrap_or_else(|error| panic!("{error}"));
        let printed = config.to_string();
        assert_eq!(yaml(&printed).to_string(), printed);
        let limits = config.build(&Clock::system());
        if let Ok(limits) = limits {
            // Nothing is different, so nothing changes.
            let changes = limits.replace(&yaml(&printed)).expect("builds");
            let others = [
                changes.changed,
                changes.replaced,
                changes.added,
                changes.removed,
            ];
            assert_eq!(others.concat(), Vec::<String>::new());
        }
    }
}

#[test]
fn the_three_formats_say_the_same() {
    let from_yaml = yaml(
        "limiters:\n  a: { kind: token_bucket, burst: 16, refill: 5, every: 1s, queue: { bound: 3 } }\n  b: { kind: all, of: [a] }\nroutes: [{ match: /x, middleware: [b] }]\n",
    );
    let toml = "routes = [{ match = '/x', middleware = ['b'] }]\n[limiters.a]\nkind = 'token_bucket'\nburst = 0x1_0\nrefill = 5\nevery = '1s'\nqueue.bound = 3\n[limiters.b]\nkind = 'all'\nof = ['a']\n";
    let json = r#"{ "limiters": { "a": { "kind": "token_bucket", "burst": 16, "refill": 5, "every": "1s", "queue": { "bound": 3 } },
        "b": { "kind": "all", "of": ["a"] } }, "routes": [{ "match": "/x", "middleware": ["b"] }] }"#;
    for (text, format) in [(toml, Format::Toml), (json, Format::Json)] {
        let config =
            Config::from_str("limits", text, format).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.to_string(), from_yaml.to_string());
    }
}

#[test]
fn everything_is_there_by_name() {
    let config = yaml(
        "
weights: [rows]
limiters:
  api: { kind: token_bucket, burst: 2, refill: 1, every: 1s, name: public_api }
  rows: { kind: fixed_window, limit: 10, window: 1s }
  disk: { kind: concurrency, limit: 1 }
  both: { kind: all, of: [api, disk] }
  rates: { kind: all, of: [api, rows] }
  user: { kind: sliding_log, limit: 1, window: 1s, keyed: true }
providers:
  p: { request_count: disk, rows: rows }
middleware:
  inner: [p]
  outer: [user, inner]
routes:
  - { match: /a/*, middleware: outer }
  - { match: /a/**, middleware: both, bytes: rates }
",
    );
    let limits = config.build(&Clock::system()).expect("builds");
    let kind = |name| limits.limiter(name).map(|limiter| limiter.kind());
    assert_eq!(kind("api"), Some(LimiterKind::Rate));
    assert_eq!(kind("disk"), Some(LimiterKind::Resource));
    assert_eq!(kind("both"), Some(LimiterKind::Resource));
    assert_eq!(kind("rates"), Some(LimiterKind::Rate));
    assert_eq!((kind("user"), kind("p"), kind("outer")), (None, None, None));

    let api = limits.limiter("api").expect("a limiter");
    assert_eq!(api.name(), Some("public_api"));
    let both = limits.limiter("both").expect("a limiter");
    let permit = both.try_acquire(1.into()).expect("granted");
    assert_eq!(
        both.try_acquire(1.into()).expect_err("full").limiter(),
        Some("disk")
    );
    assert_eq!(api.snapshot().available(), 1, "charged once");
    drop(permit);

    let user = limits.keyed("user").expect("a limiter with keys");
    assert!(user.try_acquire("anna", 1).is_ok() && user.try_acquire("bert", 1).is_ok());
    assert_eq!(
        user.try_acquire("anna", 1).expect_err("used").limiter(),
        Some("user")
    );

    let provider = limits.provider("p").expect("a provider");
    let weights: Vec<Weight> = provider.weights().collect();
    assert_eq!(weights, [Weight::REQUEST_COUNT, Weight::new("rows")]);

    let outer = limits.middleware("outer").expect("a list");
    assert!(matches!(
        outer.as_slice(),
        [Part::Keyed(_), Part::Provider(_)]
    ));
    let pattern = |path| limits.route(path).map(|route| route.pattern().to_owned());
    assert_eq!(pattern("/a/b").as_deref(), Some("/a/*"));
    assert_eq!(pattern("/a/b/c").as_deref(), Some("/a/**"));
    assert_eq!(pattern("/b"), None);
    let route = limits.route("/a").expect("a route");
    assert!(route.bytes().is_some() && route.holds() && route.middleware().len() == 1);
}

#[cfg(feature = "redis")]
#[test]
fn what_is_kept_in_a_store_says_the_same_in_three_formats() {
    let from_yaml = yaml(
        "stores: { main: { cluster: ['redis://127.0.0.1', 'redis://127.0.0.1:7001'], namespace: 'shop:eu', deadline: 1s }, unused: { url: redis://127.0.0.1 } }
limiters:
  a: { kind: fixed_window, limit: 40, window: 1s, align: start, store: main, outage: { local: 0.25 }, borrow: { keep: 2s } }
  b: { kind: concurrency, limit: 4, keyed: true, store: main }
",
    );
    let toml = "[stores.main]\ncluster = ['redis://127.0.0.1', 'redis://127.0.0.1:7001']\nnamespace = 'shop:eu'\ndeadline = '1s'\n[stores.unused]\nurl = 'redis://127.0.0.1'\n[limiters]\na = { kind = 'fixed_window', limit = 40, window = '1s', store = 'main', outage = { local = 0.25 }, borrow = { max = 2, keep = '2s' } }\nb = { kind = 'concurrency', limit = 4, keyed = true, store = 'main', lease = '30s', outage = 'deny' }\n";
    let json = r#"{ "stores": { "main": { "cluster": ["redis://127.0.0.1", "redis://127.0.0.1:7001"], "namespace": "shop:eu", "deadline": "1s" },
        "unused": { "url": "redis://127.0.0.1", "deadline": "50ms", "namespace": "plimsoll" } },
        "limiters": { "a": { "kind": "fixed_window", "limit": 40, "window": "1s", "align": "epoch", "store": "main", "outage": { "local": 0.25 },
            "borrow": { "keep": "2s", "target": "50ms", "max_keys": 10000 } },
        "b": { "kind": "concurrency", "limit": 4, "keyed": true, "store": "main" } } }"#;
    for (text, format) in [(toml, Format::Toml), (json, Format::Json)] {
        let config =
            Config::from_str("limits", text, format).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.to_string(), from_yaml.to_string());
    }
    assert!(from_yaml.build(&Clock::system()).is_ok());
}

/// The maps under `limiter` and `limit` of a scenario file: limiters, and algorithms.
fn limiters_in(node: &Node, found: &mut BTreeSet<String>) {
    match &node.value {
        Tree::List(items) => items.iter().for_each(|item| limiters_in(item, found)),
        Tree::Map(entries) => {
            for entry in entries {
                match (entry.key.as_str(), &entry.value.value) {
                    ("limiter", _) => _ = found.insert(json(&entry.value).to_string()),
                    ("limit", Tree::Map(_)) => {
                        let mut limiter = json(&entry.value);
                        limiter["kind"] = "adaptive".into();
                        found.insert(limiter.to_string());
                    }
                    _ => limiters_in(&entry.value, found),
                }
            }
        }
        Tree::Scalar { .. } => {}
    }
}

/// Durations that a scenario may write as a number of nanoseconds need their unit here.
fn with_unit(field: &str, value: Value) -> Value {
    const DURATIONS: [&str; 11] = [
        "every",
        "window",
        "period",
        "min_gap",
        "max_wait",
        "max_burst",
        "lockout",
        "soft_window",
        "timeout",
        "min_rtt",
        "min_window",
    ];
    match value.as_u64().filter(|_| DURATIONS.contains(&field)) {
        Some(nanos) => Value::from(format!("{nanos}ns")),
        None => value,
    }
}

fn json(node: &Node) -> Value {
    match &node.value {
        Tree::Scalar { text, quoted: true } => Value::from(text.as_str()),
        Tree::Scalar { text, .. } => match serde_json::from_str(text) {
            Ok(plain) => plain,
            Err(_) => Value::from(text.as_str()),
        },
        Tree::List(items) => items.iter().map(json).collect(),
        Tree::Map(entries) => {
            let field = |it: &Entry| (it.key.clone(), with_unit(&it.key, json(&it.value)));
            Value::Object(entries.iter().map(field).collect())
        }
    }
}

/// Two readers read the same words: whatever is a limiter in a scenario must be one here.
#[test]
fn every_limiter_of_the_scenarios_is_one_here() {
    let vectors = std::env::var_os("PLIMSOLL_VECTORS").map(PathBuf::from);
    let vectors = vectors.unwrap_or_else(|| project().join("../shared/vectors"));
    let mut found = BTreeSet::new();
    for folder in [project().join("examples/scenarios"), vectors] {
        let files = std::fs::read_dir(&folder).into_iter().flatten();
        for path in files.map(|file| file.expect("a file").path()) {
            let ending = path.extension().and_then(|ending| ending.to_str());
            if matches!(ending, Some("json" | "yaml")) {
                let text = std::fs::read_to_string(&path).expect("text");
                let tree = parse(&text).expect("YAML").expect("scenarios");
                limiters_in(&tree, &mut found);
            }
        }
    }
    assert!(found.len() >= 4, "{} limiters", found.len());
    let read = |limiter: &String| {
        let text = format!("{{ \"limiters\": {{ \"a\": {limiter} }} }}");
        let read = Config::from_str("a.json", &text, Format::Json);
        read.err().map(|error| format!("{error}\n    {limiter}"))
    };
    let refused: Vec<String> = found.iter().filter_map(read).collect();
    assert!(
        refused.is_empty(),
        "{} of {}:\n{}",
        refused.len(),
        found.len(),
        refused.join("\n")
    );
}
