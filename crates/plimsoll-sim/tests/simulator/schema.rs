//! The JSON Schema of simulation files: current, true of all files here, and untrue of what is wrong in a way that a schema can say.

use std::sync::LazyLock;

use plimsoll_sim::{Described, schema};
use serde_json::Value;

use crate::valid::{self, assert_current, project};

pub(crate) fn check(text: &str) -> Result<(), String> {
    valid::check(&ROOT, text)
}

static ROOT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&schema()).expect("JSON"));

#[test]
fn the_file_in_the_repository_is_the_one_that_is_printed() {
    let run = "run this test with PLIMSOLL_REWRITE=1";
    assert_current("plimsoll-simulation.schema.json", &schema(), run);
}

#[test]
fn every_simulation_file_here_is_valid() {
    let mut count = 0;
    for dir in ["examples/simulations", "examples/fleet"] {
        for entry in std::fs::read_dir(project(dir)).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|it| it == "yaml") {
                let text = std::fs::read_to_string(&path).expect("text");
                assert_eq!(check(&text), Ok(()), "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 30, "{count} files were found");
}

#[test]
fn every_field_says_what_it_is_for() {
    fn described(at: &str, schema: &Value) {
        if let Some(fields) = schema["properties"].as_object() {
            for (name, field) in fields {
                assert!(field["description"].is_string(), "{name} of {at}");
            }
        }
        match schema {
            Value::Object(map) => map.iter().for_each(|(name, it)| described(name, it)),
            Value::Array(list) => list.iter().for_each(|it| described(at, it)),
            _ => {}
        }
    }
    described("the file", &ROOT["oneOf"]);
}

/// What the reader refuses by its form, the schema refuses as well; what it takes, so does the schema.
#[test]
fn the_schema_and_the_reader_agree() {
    let server = "name: n, duration: 10s, rate: 5, workers: 2, service: 10ms";
    let fleet = "processes: 3, sharing: borrowed, rate: 100";
    let right = [
        format!("{{ {server} }}"),
        format!("{{ {server}, limit: fixed=3, queue: {{ bound: 5, order: lifo }}, expect: {{ all: {{ goodput: '>= 9%', rejected: {{ normal: '< 0.5' }} }} }} }}"),
        format!("{{ {server}, limit: {{ algorithm: vegas, max: 50 }}, slow_down: {{ ramp: [{{ at: 0, value: 1 }}, {{ at: 5s, value: 3 }}] }} }}"),
        "{ name: n, duration: 10s, clients: { count: 3, think: 1s }, stations: [{ name: a, service: { mix: [{ weight: 1, service: 5ms }] } }] }".to_owned(),
        format!("{{ name: n, duration: 10s, fleet: {{ {fleet}, loss: 0.1 }}, expect: {{ above: '<= 10%' }} }}"),
    ];
    let wrong = [
        "{ name: n, duration: 10s, rate: 5, workers: 2 }".to_owned(),
        format!("{{ {server}, wrokers: 3 }}"),
        format!("{{ {server}, deadline: 50 }}"),
        format!("{{ {server}, stations: [{{ name: a, service: 5ms }}] }}"),
        format!("{{ {server}, limit: orakle }}"),
        format!("{{ {server}, limit: fixed=0 }}"),
        format!("{{ {server}, processes: 101 }}"),
        format!("{{ {server}, slow_down: 0 }}"),
        format!("{{ {server}, expect: {{ all: {{ goodput: 97% }} }} }}"),
        format!("{{ {server}, expect: {{ all: {{ godput: '> 97%' }} }} }}"),
        format!("{{ {server}, failures: {{ share: 2 }} }}"),
        format!("{{ {server}, retries: {{ times: 2, on: [late] }} }}"),
        format!("{{ name: n, duration: 10s, fleet: {{ {fleet}, without: deny }} }}"),
        "{ name: n, duration: 10s, fleet: { processes: 3, sharing: assigned, rate: 100, loss: 0.1 } }".to_owned(),
    ];
    let dir = std::env::temp_dir().join(format!("plimsoll-schema-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let read = |text: &str| {
        let file = dir.join("one.yaml");
        std::fs::write(&file, text).expect("a file");
        Described::from_file(&file).map_err(|error| error.to_string())
    };
    for right in right {
        assert_eq!(check(&right), Ok(()), "{right}");
        assert!(read(&right).is_ok(), "{right}: {:?}", read(&right));
    }
    for wrong in wrong {
        assert!(check(&wrong).is_err(), "{wrong}");
        assert!(read(&wrong).is_err(), "{wrong}");
    }
    std::fs::remove_dir_all(&dir).expect("removed");
}
