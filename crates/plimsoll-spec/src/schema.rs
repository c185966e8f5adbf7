//! The JSON Schema of limiters, made of the types they are read into, for editors.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::algorithm::Algorithm;
use crate::limiter::{Common, Kind, Limiter, STORABLE};

/// Fields that only kinds have that a store can hold.
const OF_STORED: [&str; 3] = ["store", "outage", "borrow"];

/// Returns the JSON Schema (draft 7) of files that are read into `T`, as indented text.
///
/// The schema checks fields, keywords, numbers and units. Only the reader checks conditions over the whole file, such
/// as names that must exist. Descriptions are the doc comments of the types up to their first example, because the
/// examples are Rust.
///
/// ```
/// use plimsoll_spec::{Queue, schema_of};
///
/// assert!(schema_of::<Queue>().contains("QueueBoundCounts"));
/// ```
#[must_use]
pub fn schema_of<T: JsonSchema>() -> String {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    without_null(&mut schema);
    without_code(&mut schema);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// Cuts descriptions at their first code block.
fn without_code(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == "description" => {
                        if let Some((prose, _)) = text.split_once("```") {
                            *text = prose.trim_end().to_owned();
                        }
                    }
                    field => without_code(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_code),
        _ => {}
    }
}

/// One closed map for each kind, and for each algorithm of `adaptive`, each with the common fields. Editors complete such maps
/// well, and not all of them support `unevaluatedProperties`.
impl JsonSchema for Limiter {
    fn schema_name() -> Cow<'static, str> {
        "Limiter".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let common = properties(&Common::json_schema(generator));
        let mut branches = Vec::new();
        for branch in choices(&Kind::json_schema(generator)) {
            if branch["properties"]["kind"]["const"] == "adaptive" {
                let each = choices(&Algorithm::json_schema(generator)).into_iter();
                branches.extend(each.map(|algorithm| merged(&algorithm, &branch)));
            } else {
                branches.push(branch);
            }
        }
        for branch in &mut branches {
            let kind = branch["properties"]["kind"]["const"].as_str();
            let stored = kind.is_some_and(|kind| STORABLE.contains(&kind));
            let known = |name: &str| stored || !OF_STORED.contains(&name);
            for (name, property) in common.iter().filter(|(name, _)| known(name)) {
                branch["properties"][name] = property.clone();
            }
        }
        branches.extend(short_forms(&branches));
        json_schema!({
            "description": "A limiter: its kind, and the fields of that kind; or a `rate`, or a `concurrency`.",
            "type": "object",
            "oneOf": branches,
        })
    }
}

/// The branches of the short forms, derived from those of the kinds that they expand to.
fn short_forms(branches: &[Value]) -> Vec<Value> {
    let find = |kind: &str, algorithm: Option<&str>| {
        let word = |branch: &Value, tag: &str| {
            branch["properties"][tag]["const"]
                .as_str()
                .map(str::to_owned)
        };
        let is = |branch: &&Value| {
            word(branch, "kind").as_deref() == Some(kind)
                && word(branch, "algorithm").as_deref() == algorithm
        };
        branches.iter().find(is).cloned()
    };
    let short = |branch: Option<Value>, said: &[&str], field: &str, schema: Value| {
        let mut branch = branch?;
        let fields = branch["properties"].as_object_mut()?;
        fields.retain(|name, _| !said.contains(&name.as_str()));
        fields.insert(field.to_owned(), schema);
        branch["required"] = json!([field]);
        Some(branch)
    };
    let mut rate = short(
        find("token_bucket", None),
        &["kind", "refill", "every"],
        "rate",
        rate(),
    );
    if let Some(rate) = &mut rate {
        rate["properties"]["burst"] = json!({
            "description": "The most tokens: the amount of the rate unless set.",
            "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "pattern": "^[0-9]+[kMG]?$" }]
        });
    }
    let slots = json!({ "description": "The number in flight.", "type": "integer", "minimum": 1 });
    let found = json!({ "description": "The number in flight, found by an algorithm.", "const": "adaptive" });
    let slots = short(
        find("concurrency", None),
        &["kind", "limit"],
        "concurrency",
        slots,
    );
    let verdict = find("adaptive", Some("verdict"));
    let found = short(verdict, &["kind", "algorithm"], "concurrency", found);
    [rate, slots, found].into_iter().flatten().collect()
}

/// Returns the schema of a rate in its short form, such as `100/s`.
#[must_use]
pub fn rate() -> Value {
    json!({
        "description": "A rate such as 100/s, 5000/hour, 5/10min, 100k/min or 0.5/s.",
        "type": "string",
        "pattern": "^[0-9]+([.][0-9]+)?[kMG]?/[0-9]*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)$"
    })
}

/// Adds the fields of the map that `of` describes to each branch of the schema of a [`Limiter`], for files whose limiters have more
/// fields.
pub fn with_fields(limiter: &mut Schema, of: &Schema) {
    let fields = properties(of);
    let branches = limiter.get_mut("oneOf").and_then(Value::as_array_mut);
    for branch in branches.into_iter().flatten() {
        if let Some(properties) = branch["properties"].as_object_mut() {
            properties.extend(fields.clone());
        }
    }
}

fn choices(schema: &Schema) -> Vec<Value> {
    let choices = schema.get("oneOf").and_then(Value::as_array);
    choices.cloned().unwrap_or_default()
}

fn properties(schema: &Schema) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.cloned().unwrap_or_default()
}

/// `inner`, of the kind `outer`.
fn merged(inner: &Value, outer: &Value) -> Value {
    let mut merged = inner.clone();
    merged["properties"]["kind"] = outer["properties"]["kind"].clone();
    merged["description"] = outer["description"].clone();
    if let Some(required) = merged["required"].as_array_mut() {
        required.insert(0, "kind".into());
    }
    merged
}

/// An optional field may be left out, but may not be `null`.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    fields["type"] = only.clone();
                }
            }
            if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if choices.len() == 1 {
                    let only = fields.remove("anyOf").unwrap_or_default();
                    fields.insert("allOf".to_owned(), only);
                }
            }
            fields.values_mut().for_each(without_null);
        }
        _ => {}
    }
}
