//! `docs/reference.md`: every kind and every field of a configuration file in prose, made of the descriptions of the JSON
//! Schema. It is written anew with `PLIMSOLL_REWRITE=1`; the test fails when it is not current.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use plimsoll_config::{Config, Format, schema};
use serde_json::{Map, Value};

/// An example of each kind, by what its heading says.
const EXAMPLES: [(&str, &str); 25] = [
    ("rate", "{ rate: 100/s, burst: 200, key: client }"),
    (
        "concurrency",
        "{ concurrency: 10, queue: { bound: 100, timeout: 250ms } }",
    ),
    (
        "concurrency: adaptive",
        "{ concurrency: adaptive, max: 200 }",
    ),
    (
        "fixed_window",
        "{ kind: fixed_window, limit: 1000, window: 1h, key: header:x-api-key }",
    ),
    (
        "sliding_window",
        "{ kind: sliding_window, limit: 100, window: 1m, segments: 6 }",
    ),
    (
        "sliding_log",
        "{ kind: sliding_log, limit: 5, window: 10m, key: [client, 'form:user'] }",
    ),
    (
        "sliding_counter",
        "{ kind: sliding_counter, limit: 100, window: 1m, key: client }",
    ),
    (
        "token_bucket",
        "{ kind: token_bucket, burst: 20, refill: 10, every: 1s }",
    ),
    (
        "bandwidths",
        "{ kind: bandwidths, limits: [{ burst: 10, refill: 10, every: 1s }, { burst: 100, refill: 100, every: 1m }] }",
    ),
    (
        "smooth_bursty",
        "{ kind: smooth_bursty, rate: 5.0, max_burst: 1s }",
    ),
    (
        "smooth_warmup",
        "{ kind: smooth_warmup, rate: 5.0, warmup: 10s }",
    ),
    ("refresh", "{ kind: refresh, limit: 50, period: 1s }"),
    (
        "penalty_bucket",
        "{ kind: penalty_bucket, burst: 10, refill: 1, every: 1s }",
    ),
    ("concurrency (long)", "{ kind: concurrency, limit: 10 }"),
    (
        "adaptive: aimd",
        "{ kind: adaptive, algorithm: aimd, initial: 20, max: 200 }",
    ),
    (
        "adaptive: gradient2",
        "{ kind: adaptive, algorithm: gradient2, initial: 20, max: 200 }",
    ),
    (
        "adaptive: vegas",
        "{ kind: adaptive, algorithm: vegas, initial: 20, max: 200 }",
    ),
    (
        "adaptive: latency_gradient",
        "{ kind: adaptive, algorithm: latency_gradient, initial: 20, max: 200 }",
    ),
    (
        "adaptive: verdict",
        "{ kind: adaptive, algorithm: verdict, max: 200 }",
    ),
    (
        "adaptive: windowed",
        "{ kind: adaptive, algorithm: windowed, delegate: { algorithm: vegas } }",
    ),
    (
        "all",
        "{ kind: all, of: [{ kind: concurrency, limit: 10 }, { kind: fixed_window, limit: 100, window: 1m }] }",
    ),
    ("memory", "{ kind: memory, hard_limit: 90%, spike: 10% }"),
    ("cpu", "{ kind: cpu, threshold: 90% }"),
    (
        "partitions",
        "{ kind: partitions, limit: 100, shares: { gold: 3, silver: 1 }, key: header:x-plan }",
    ),
    (
        "policies",
        "{ kind: policies, handlers: { read: { rps: 10, burst: 20 } }, key: [header:x-operation, client] }",
    ),
];

/// The definitions by name, and what is written so far.
struct Reference {
    definitions: Map<String, Value>,
    out: String,
}

/// Without examples, which are for those who write Rust.
fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    let text = value[name].as_str().unwrap_or_default();
    text.split("\n\n```").next().unwrap_or(text)
}

/// What a field may hold, in words.
fn kind_of(value: &Value) -> String {
    if let Some(name) = value["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or(name);
        let heading = match name {
            "Limit" => "fields-of-every-limit",
            "Limiter" => "kinds",
            name => &name.to_lowercase(),
        };
        return format!("[{name}](#{heading})");
    }
    if let Some(word) = value.get("const") {
        return format!(
            "`{}`",
            word.as_str()
                .map_or_else(|| word.to_string(), str::to_owned)
        );
    }
    if let Some(words) = value["enum"].as_array() {
        let words: Vec<String> = words
            .iter()
            .map(|it| format!("`{}`", it.as_str().unwrap_or("?")))
            .collect();
        return words.join(", ");
    }
    for several in ["allOf", "anyOf", "oneOf"] {
        if let Some(each) = value[several].as_array() {
            let each: Vec<String> = each.iter().map(kind_of).collect();
            return each.join(" or ");
        }
    }
    match text(value, "type") {
        "array" => format!("list of {}", kind_of(&value["items"])),
        "object" if value["additionalProperties"].is_object() => {
            format!("map of {}", kind_of(&value["additionalProperties"]))
        }
        "object" => "map".to_owned(),
        "integer" => "whole number".to_owned(),
        "string" => "text".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        "number" => "number".to_owned(),
        "" => "anything".to_owned(),
        other => other.to_owned(),
    }
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

impl Reference {
    fn fields<'v>(&mut self, of: impl Iterator<Item = (&'v String, &'v Value)>, required: &Value) {
        let required: Vec<&str> = required
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut rows = of
            .filter(|(_, field)| field.get("const").is_none())
            .peekable();
        if rows.peek().is_none() {
            return;
        }
        self.out += "| field | value | default | |\n|---|---|---|---|\n";
        for (name, field) in rows {
            let default = match &field["default"] {
                Value::Null if required.contains(&name.as_str()) => "needed".to_owned(),
                Value::Null => String::new(),
                Value::String(word) => format!("`{word}`"),
                other => format!("`{other}`"),
            };
            let (kind, about) = (cell(&kind_of(field)), cell(text(field, "description")));
            let _ = writeln!(self.out, "| `{name}` | {kind} | {default} | {about} |");
        }
        self.out.push('\n');
    }

    fn kinds(&mut self) {
        let branches = self.definitions["Limit"]["anyOf"][1]["oneOf"].clone();
        let branches = branches.as_array().expect("kinds");
        // What most kinds have is said once.
        let mut times: BTreeMap<&String, usize> = BTreeMap::new();
        for branch in branches {
            let fields = branch["properties"].as_object().expect("fields");
            fields
                .keys()
                .for_each(|name| *times.entry(name).or_default() += 1);
        }
        let common = |name: &String| {
            times
                .get(name)
                .is_some_and(|it| it * 3 > branches.len() * 2)
        };
        self.out += "## Fields of every limit\n\n";
        let mut shared = Map::new();
        for branch in branches {
            let fields = branch["properties"].as_object().expect("fields");
            let of_all = fields
                .iter()
                .filter(|(name, _)| common(name) && *name != "kind");
            shared.extend(of_all.map(|(name, field)| (name.clone(), field.clone())));
        }
        self.fields(shared.iter(), &Value::Null);
        self.out += "## Kinds\n\n";
        for branch in branches {
            let heading = heading(branch);
            let fields = branch["properties"].as_object().expect("fields");
            let _ = writeln!(
                self.out,
                "### {heading}\n\n{}\n",
                text(branch, "description")
            );
            let known = EXAMPLES.iter().find(|(of, _)| *of == key_of(branch));
            if let Some((_, example)) = known.filter(|(_, example)| !example.is_empty()) {
                let _ = writeln!(self.out, "```yaml\nlimits:\n  example: {example}\n```\n");
            }
            let own = fields.iter().filter(|(name, _)| !common(name));
            self.fields(own, &branch["required"]);
        }
    }

    fn types(&mut self) {
        self.out += "## Values\n\n";
        for (name, value) in self.definitions.clone() {
            if ["Limit", "Limiter"].contains(&name.as_str()) {
                continue;
            }
            let _ = writeln!(self.out, "### {name}\n\n{}\n", text(&value, "description"));
            match value["properties"].as_object() {
                Some(fields) => self.fields(fields.iter(), &value["required"]),
                None => {
                    let words = value["oneOf"].as_array().or(value["anyOf"].as_array());
                    for word in words.into_iter().flatten() {
                        let about = match text(word, "description") {
                            "" => String::new(),
                            about => format!(": {about}"),
                        };
                        let _ = writeln!(self.out, "- {}{about}", kind_of(word));
                    }
                    if words.is_none() {
                        let pattern = match text(&value, "pattern") {
                            "" => String::new(),
                            pattern => format!(", as `{pattern}`"),
                        };
                        let _ = writeln!(self.out, "- {}{pattern}", kind_of(&value));
                    }
                    self.out.push('\n');
                }
            }
        }
    }
}

/// By what an example of this kind is found.
fn key_of(branch: &Value) -> String {
    let field = |name: &str| branch["properties"][name]["const"].as_str();
    match (field("kind"), field("algorithm")) {
        (Some("adaptive"), Some(algorithm)) => format!("adaptive: {algorithm}"),
        (Some("concurrency"), _) => "concurrency (long)".to_owned(),
        (Some(kind), _) => kind.to_owned(),
        (None, _) if branch["properties"].get("rate").is_some() => "rate".to_owned(),
        (None, _) if field("concurrency").is_some() => "concurrency: adaptive".to_owned(),
        (None, _) => "concurrency".to_owned(),
    }
}

fn heading(branch: &Value) -> String {
    let field = |name: &str| branch["properties"][name]["const"].as_str();
    match (field("kind"), field("algorithm")) {
        (Some(kind), Some(algorithm)) => format!("`kind: {kind}`, `algorithm: {algorithm}`"),
        (Some(kind), None) => format!("`kind: {kind}`"),
        (None, _) => format!("`{}`, in short", key_of(branch)),
    }
}

fn reference() -> String {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    let mut reference = Reference {
        definitions: schema["definitions"].as_object().expect("definitions").clone(),
        out: "# Reference of configuration files\n\nGenerated from the JSON Schema (`schema/plimsoll.schema.json`); a test keeps it current. \
              The [README of plimsoll-config](../crates/plimsoll-config/README.md) explains how the parts fit together.\n\n\
              ## Sections of a file\n\n"
            .to_owned(),
    };
    let sections = schema["properties"].as_object().expect("sections").clone();
    reference.fields(sections.iter(), &schema["required"]);
    reference.kinds();
    reference.types();
    format!("{}\n", reference.out.trim_end())
}

#[test]
fn the_reference_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let made = reference();
    if std::env::var_os("PLIMSOLL_REWRITE").is_some() {
        std::fs::write(&file, &made).expect("a file");
    }
    let committed = std::fs::read_to_string(file).unwrap_or_default();
    let run = "run: PLIMSOLL_REWRITE=1 cargo test -p plimsoll-config --all-features --test language reference";
    assert!(committed == made, "docs/reference.md is not current; {run}");
}

#[test]
fn every_kind_has_an_example_that_can_be_read_and_every_field_a_description() {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    let branches = &schema["definitions"]["Limit"]["anyOf"][1]["oneOf"];
    for branch in branches.as_array().expect("kinds") {
        let key = key_of(branch);
        let example = EXAMPLES.iter().find(|(of, _)| *of == key);
        let (_, example) = example.unwrap_or_else(|| panic!("no example of {key}"));
        let text = format!("limits:\n  example: {example}\n");
        let read = Config::from_str("limits.yaml", &text, Format::Yaml);
        assert!(
            read.is_ok(),
            "{key}: {}",
            read.err().map(|it| it.to_string()).unwrap_or_default()
        );
        for (name, field) in branch["properties"].as_object().expect("fields") {
            let said = field.get("const").is_some() || !self::text(field, "description").is_empty();
            assert!(said, "{key}.{name} has no description");
        }
    }
}
