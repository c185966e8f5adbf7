//! The JSON Schema of scenario files: current, true of all files here, and untrue of what is wrong in a way that a schema can say.

use std::sync::LazyLock;

use plimsoll_scenario::schema;
use serde_json::Value;

use crate::valid::{self, assert_current, project};

fn check(text: &str) -> Result<(), String> {
    valid::check(&ROOT, text)
}

static ROOT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&schema()).expect("JSON"));

#[test]
fn the_file_in_the_repository_is_the_one_that_is_printed() {
    let run = "run: plimsoll test --schema > schema/plimsoll-scenario.schema.json";
    assert_current("plimsoll-scenario.schema.json", &schema(), run);
}

#[test]
fn every_scenario_file_here_is_valid() {
    let mut count = 0;
    for dir in ["examples/scenarios", "crates/plimsoll-scenario/tests"] {
        for entry in std::fs::read_dir(project(dir)).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|it| it == "yaml") {
                let text = std::fs::read_to_string(&path).expect("text");
                assert_eq!(check(&text), Ok(()), "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 12, "{count} files were found");
}

#[test]
fn every_field_says_what_it_is_for() {
    fn described(at: &str, schema: &Value) {
        if let Some(fields) = schema["properties"].as_object() {
            for (name, field) in fields {
                let said = field["description"].is_string() || field["const"].is_string();
                assert!(said, "{name} of {at}");
            }
        }
        match schema {
            Value::Object(map) => map.iter().for_each(|(name, it)| described(name, it)),
            Value::Array(list) => list.iter().for_each(|it| described(at, it)),
            _ => {}
        }
    }
    described("the file", &ROOT["anyOf"]);
    described("a scenario", &ROOT["definitions"]["Scenario"]);
}

#[test]
fn what_a_schema_can_see_is_refused() {
    let gate = "name: n, limiter: { kind: concurrency, limit: 1 }";
    let right = [
        format!("[{{ {gate}, steps: [{{ at: 5, try: 1, expect: {{ result: denied, retry_after: none }} }}] }}]"),
        format!("{{ about: x, scenarios: [{{ {gate}, steps: [{{ available: 1 }}] }}] }}"),
        "[{ name: n, config: a.yaml, steps: [{ request: GET / from 10.0.0.7, times: 3, expect: refused by a }] }]".to_owned(),
    ];
    for right in right {
        assert_eq!(check(&right), Ok(()), "{right}");
    }
    let wrong = [
        format!("[{{ {gate} }}]"),
        format!("[{{ {gate}, steps: [{{ trie: 1 }}] }}]"),
        format!("[{{ {gate}, steps: [{{ try: 1, release: a }}] }}]"),
        format!("[{{ {gate}, steps: [{{ try: 1, timeout: 1s }}] }}]"),
        format!("[{{ {gate}, steps: [{{ try: 1, expect: allowed }}] }}]"),
        format!("[{{ {gate}, steps: [{{ try: 1, expect: {{ reason: tired }} }}] }}]"),
        format!("[{{ {gate}, steps: [{{ request: GET / }}] }}]"),
        "[{ name: n, limiter: { rate: 1/s }, steps: [] }]".to_owned(),
        "[{ name: n, limiter: { kind: fixed_window, limit: 1, window: 1s, store: main }, steps: [] }]".to_owned(),
        "[{ name: n, config: a.yaml, steps: [{ request: get / }] }]".to_owned(),
        "[{ name: n, config: a.yaml, steps: [{ ask: a, body: x }] }]".to_owned(),
    ];
    for wrong in wrong {
        assert!(check(&wrong).is_err(), "{wrong}");
    }
}
