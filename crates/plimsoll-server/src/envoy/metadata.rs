//! Values without a type of their own: what stands in the dynamic metadata of an answer.

use plimsoll_spec::{Node, Value as Read};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

/// A value of this kind.
pub(super) const fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

pub(super) fn text(text: impl Into<String>) -> Value {
    value(Kind::StringValue(text.into()))
}

pub(super) fn number(number: u64) -> Value {
    // Metadata has no other numbers. What is above 2^53 is rounded.
    value(Kind::NumberValue(number as f64))
}

pub(super) fn list(values: impl IntoIterator<Item = Value>) -> Value {
    let values = values.into_iter().collect();
    value(Kind::ListValue(ListValue { values }))
}

/// A map of these fields.
pub(super) fn map(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Struct {
    let fields = fields.into_iter().map(|(name, is)| (name.to_owned(), is));
    Struct {
        fields: fields.collect(),
    }
}

/// The map that stands in a file. `None` if it is none.
pub(super) fn of_node(node: &Node) -> Option<Struct> {
    match &node.value {
        Read::Map(entries) => {
            let entries = entries.iter();
            let fields = entries.map(|entry| (entry.key.clone(), value_of(&entry.value)));
            Some(Struct {
                fields: fields.collect(),
            })
        }
        _ => None,
    }
}

fn value_of(node: &Node) -> Value {
    let kind = match &node.value {
        _ if node.is_null() => Kind::NullValue(0),
        Read::Map(_) => Kind::StructValue(of_node(node).unwrap_or_default()),
        Read::List(items) => Kind::ListValue(ListValue {
            values: items.iter().map(value_of).collect(),
        }),
        Read::Scalar {
            text,
            quoted: false,
        } => match (text.as_str(), text.parse::<f64>()) {
            ("true", _) => Kind::BoolValue(true),
            ("false", _) => Kind::BoolValue(false),
            (_, Ok(number)) if number.is_finite() => Kind::NumberValue(number),
            _ => Kind::StringValue(text.clone()),
        },
        Read::Scalar { text, .. } => Kind::StringValue(text.clone()),
    };
    value(kind)
}

/// What an answer tells about itself, as JSON.
pub(super) fn told(metadata: &Struct, field: &str) -> Option<serde_json::Value> {
    match metadata.fields.get("plimsoll")?.kind.as_ref()? {
        Kind::StructValue(own) => own.fields.get(field).map(to_json),
        _ => None,
    }
}

/// A value as JSON.
pub(super) fn to_json(value: &Value) -> serde_json::Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(truth)) => (*truth).into(),
        Some(Kind::NumberValue(number)) => (*number).into(),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::StructValue(map)) => map_to_json(map),
        Some(Kind::ListValue(list)) => list.values.iter().map(to_json).collect(),
    }
}

pub(super) fn map_to_json(map: &Struct) -> serde_json::Value {
    let fields = map.fields.iter();
    fields
        .map(|(name, is)| (name.clone(), to_json(is)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
