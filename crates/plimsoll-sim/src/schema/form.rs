//! Forms of numbers, spans, words and maps.

use serde_json::{Map, Value, json};

/// A number that changes with time: one, steps, or a ramp.
pub(super) fn changing(what: &str, number: &Value) -> Value {
    let value = || ("value", said(number.clone(), "The number from then on."));
    let at = || ("at", moment("The moment."));
    let steps = map(
        [
            at(),
            value(),
            ("over", span("The time over which the value changes.")),
        ],
        &["at", "value"],
    );
    let points = json!({
        "description": "Straight lines between points.", "type": "array", "items": map([at(), value()], &["at", "value"]),
    });
    json!({ "description": what, "anyOf": [
        number, { "type": "array", "items": steps }, map([("ramp", points)], &["ramp"]),
    ] })
}

pub(super) fn condition() -> Value {
    json!({ "type": "string", "pattern": "^(>=|<=|>|<|=) *[0-9.]+(%|ns|us|ms|s|m|h|d)?$" })
}

pub(super) fn share() -> Value {
    number(0.0, Some(1.0))
}

pub(super) fn number(least: f64, most: Option<f64>) -> Value {
    match most {
        Some(most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        None => json!({ "type": "number", "minimum": least }),
    }
}

pub(super) fn period() -> Value {
    json!({ "type": "string", "pattern": "^0*[1-9][0-9]*(ns|us|ms|s|m|h|d)$" })
}

pub(super) fn span(what: &str) -> Value {
    said(period(), what)
}

pub(super) fn moment(what: &str) -> Value {
    let unit = json!({ "type": "string", "pattern": "^[0-9]+(ns|us|ms|s|m|h|d)$" });
    json!({ "description": what, "anyOf": [unit, { "const": 0 }] })
}

/// A scalar that is read as text.
pub(super) fn text(what: &str) -> Value {
    json!({ "description": what, "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "boolean" }] })
}

pub(super) fn words(what: &str, words: &[&str]) -> Value {
    json!({ "description": what, "enum": words })
}

/// A schema with a description. In this draft of JSON Schema a reference has no other keys beside it.
pub(super) fn said(schema: Value, what: &str) -> Value {
    if schema.get("$ref").is_some() {
        return json!({ "description": what, "allOf": [schema] });
    }
    let mut schema = schema;
    schema["description"] = what.into();
    schema
}

/// A map with these fields and no others.
pub(super) fn map(
    fields: impl IntoIterator<Item = (&'static str, Value)>,
    needed: &[&str],
) -> Value {
    let fields = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let fields: Map<String, Value> = fields.collect();
    json!({ "type": "object", "properties": fields, "required": needed, "additionalProperties": false })
}
