//! Untyped values: the dynamic metadata of a response.
//!
//! They are encoded as `google.protobuf.Struct`. The type of `prost-types` stores fields in a `BTreeMap` with owned names, which
//! takes longer to build than the decision.

use std::borrow::Cow;

use plimsoll_spec::{Node, Value as Read};
use prost::DecodeError;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, encode_varint, encoded_len_varint, skip_field};

/// A static or an owned text.
pub(super) type Text = Cow<'static, str>;

/// `google.protobuf.Value`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Number(f64),
    Text(Text),
    Bool(bool),
    Map(Map),
    List(Vec<Self>),
}

/// `google.protobuf.Struct`: values with unique names, in insertion order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map(Vec<(Text, Value)>);

impl Value {
    pub(super) fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn number(number: u64) -> Self {
        // All numbers are doubles. Values above 2^53 are rounded.
        Self::Number(number as f64)
    }
}

impl Map {
    /// An empty map with room for `count` values.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }

    /// Appends a value. The caller ensures that the name is new.
    pub(super) fn push(&mut self, name: impl Into<Text>, value: Value) {
        self.0.push((name.into(), value));
    }

    /// Appends the values of `other` whose names are new.
    pub(super) fn add_missing(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            if self.get(name).is_none() {
                self.push(name.clone(), value.clone());
            }
        }
    }
}

// The field tags of `Value`: the field number, and the wire type in the lowest three bits.
const NULL: u8 = 1 << 3;
const NUMBER: u8 = 2 << 3 | 1;
const TEXT: u8 = 3 << 3 | 2;
const BOOL: u8 = 4 << 3;
const MAP: u8 = 5 << 3 | 2;
const LIST: u8 = 6 << 3 | 2;
/// The tag of the first field of `Struct`, of its entries and of `ListValue`, which is length-delimited.
const FIRST: u8 = 1 << 3 | 2;
const SECOND: u8 = 2 << 3 | 2;

/// The encoded length of a length-delimited field, with its tag and its length.
fn delimited_length(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

fn begin(key: u8, length: usize, to: &mut impl BufMut) {
    to.put_u8(key);
    encode_varint(length as u64, to);
}

fn put_text(key: u8, text: &str, to: &mut impl BufMut) {
    begin(key, text.len(), to);
    to.put_slice(text.as_bytes());
}

impl Value {
    fn length(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 2,
            Self::Number(_) => 9,
            Self::Text(text) => delimited_length(text.len()),
            Self::Map(map) => delimited_length(map.length()),
            Self::List(list) => delimited_length(list_length(list)),
        }
    }

    fn write(&self, to: &mut impl BufMut) {
        match self {
            Self::Null => to.put_slice(&[NULL, 0]),
            Self::Number(number) => {
                to.put_u8(NUMBER);
                to.put_f64_le(*number);
            }
            Self::Text(text) => put_text(TEXT, text, to),
            Self::Bool(truth) => to.put_slice(&[BOOL, u8::from(*truth)]),
            Self::Map(map) => {
                begin(MAP, map.length(), to);
                map.write(to);
            }
            Self::List(list) => {
                begin(LIST, list_length(list), to);
                for value in list {
                    begin(FIRST, value.length(), to);
                    value.write(to);
                }
            }
        }
    }
}

fn list_length(list: &[Value]) -> usize {
    list.iter()
        .map(|value| delimited_length(value.length()))
        .sum()
}

impl Map {
    fn length(&self) -> usize {
        let entries = self.0.iter();
        entries
            .map(|(name, value)| delimited_length(entry_length(name, value)))
            .sum()
    }

    fn write(&self, to: &mut impl BufMut) {
        for (name, value) in &self.0 {
            begin(FIRST, entry_length(name, value), to);
            put_text(FIRST, name, to);
            begin(SECOND, value.length(), to);
            value.write(to);
        }
    }
}

fn entry_length(name: &str, value: &Value) -> usize {
    delimited_length(name.len()) + delimited_length(value.length())
}

/// Supports encoding only.
impl prost::Message for Map {
    fn encode_raw(&self, to: &mut impl BufMut) {
        self.write(to);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, from, context)
    }

    fn encoded_len(&self) -> usize {
        self.length()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Converts a node of a YAML file. `None` if it is not a map.
pub(super) fn of_node(node: &Node) -> Option<Map> {
    let Read::Map(entries) = &node.value else {
        return None;
    };
    let mut map = Map::default();
    for entry in entries {
        if map.get(&entry.key).is_none() {
            map.push(entry.key.clone(), value_of(&entry.value));
        }
    }
    Some(map)
}

fn value_of(node: &Node) -> Value {
    match &node.value {
        _ if node.is_null() => Value::Null,
        Read::Map(_) => Value::Map(of_node(node).unwrap_or_default()),
        Read::List(items) => Value::List(items.iter().map(value_of).collect()),
        Read::Scalar {
            text,
            quoted: false,
        } => match (text.as_str(), text.parse::<f64>()) {
            ("true", _) => Value::Bool(true),
            ("false", _) => Value::Bool(false),
            (_, Ok(number)) if number.is_finite() => Value::Number(number),
            _ => Value::text(text.clone()),
        },
        Read::Scalar { text, .. } => Value::text(text.clone()),
    }
}

/// A field of the decision in dynamic metadata, as JSON.
pub(super) fn decision_field(metadata: &Map, field: &str) -> Option<serde_json::Value> {
    match metadata.get("plimsoll")? {
        Value::Map(own) => own.get(field).map(to_json),
        _ => None,
    }
}

fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => (*number).into(),
        Value::Text(text) => (**text).into(),
        Value::Map(map) => map_to_json(map),
        Value::List(list) => list.iter().map(to_json).collect(),
    }
}

pub(super) fn map_to_json(map: &Map) -> serde_json::Value {
    let fields = map.0.iter();
    fields
        .map(|(name, is)| (name.to_string(), to_json(is)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::value::Kind;
    use prost_types::{ListValue, Struct};

    use super::*;

    fn of_value(value: &Value) -> prost_types::Value {
        let kind = match value {
            Value::Null => Kind::NullValue(0),
            Value::Number(number) => Kind::NumberValue(*number),
            Value::Text(text) => Kind::StringValue(text.to_string()),
            Value::Bool(truth) => Kind::BoolValue(*truth),
            Value::Map(map) => Kind::StructValue(of_map(map)),
            Value::List(list) => Kind::ListValue(ListValue {
                values: list.iter().map(of_value).collect(),
            }),
        };
        prost_types::Value { kind: Some(kind) }
    }

    fn of_map(map: &Map) -> Struct {
        let fields = map.0.iter();
        let fields = fields.map(|(name, value)| (name.to_string(), of_value(value)));
        Struct {
            fields: fields.collect(),
        }
    }

    #[test]
    fn it_is_written_as_a_struct_of_protobuf_is() {
        let mut inner = Map::default();
        for (index, value) in [
            Value::Null,
            Value::Bool(true),
            Value::Bool(false),
            Value::number(u64::MAX),
            Value::Number(-0.5),
            Value::text("x".repeat(200)),
            Value::text(""),
            Value::List(vec![Value::text("a"), Value::Null, Value::List(Vec::new())]),
            Value::Map(Map::default()),
        ]
        .into_iter()
        .enumerate()
        {
            inner.push(format!("field {index}"), value);
        }
        let mut map = Map::default();
        map.push("", Value::Map(inner.clone()));
        map.push("list", Value::List(vec![Value::Map(inner)]));
        let bytes = map.encode_to_vec();
        assert_eq!(Struct::decode(&bytes[..]), Ok(of_map(&map)));
        assert_eq!(bytes.len(), map.encoded_len());
        assert_eq!(Map::default().encode_to_vec(), [0_u8; 0]);
    }
}
