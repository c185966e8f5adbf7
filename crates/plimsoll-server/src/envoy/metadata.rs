//! Values without a type of their own: what stands in the dynamic metadata of an answer.
//!
//! They are written as `google.protobuf.Struct` is. Its own type keeps fields in a tree of owned names, which takes longer to
//! make than the decision that it tells of.

use std::borrow::Cow;

use plimsoll_spec::{Node, Value as Read};
use prost::DecodeError;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, encode_varint, encoded_len_varint, skip_field};

/// A text that is known or was made for this.
pub(super) type Text = Cow<'static, str>;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Number(f64),
    Text(Text),
    Bool(bool),
    Map(Map),
    List(Vec<Self>),
}

/// Values with names, each of which is there once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map(Vec<(Text, Value)>);

impl Value {
    pub(super) fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn number(number: u64) -> Self {
        // Metadata has no other numbers. What is above 2^53 is rounded.
        Self::Number(number as f64)
    }
}

impl Map {
    /// No values, with room for so many.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }

    /// Adds a value whose name is not there yet.
    pub(super) fn push(&mut self, name: impl Into<Text>, value: Value) {
        self.0.push((name.into(), value));
    }

    /// Adds the values of another one whose names are not there yet.
    pub(super) fn add_missing(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            if self.get(name).is_none() {
                self.push(name.clone(), value.clone());
            }
        }
    }
}

// The numbers of the fields of `Value`, with how they are written in the lowest three bits.
const NULL: u8 = 1 << 3;
const NUMBER: u8 = 2 << 3 | 1;
const TEXT: u8 = 3 << 3 | 2;
const BOOL: u8 = 4 << 3;
const MAP: u8 = 5 << 3 | 2;
const LIST: u8 = 6 << 3 | 2;
/// The first field of `Struct`, of its entries and of `ListValue`: something with a length.
const FIRST: u8 = 1 << 3 | 2;
const SECOND: u8 = 2 << 3 | 2;

/// How long something with a key and a length is.
fn whole(length: usize) -> usize {
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
            Self::Text(text) => whole(text.len()),
            Self::Map(map) => whole(map.length()),
            Self::List(list) => whole(list_length(list)),
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
    list.iter().map(|value| whole(value.length())).sum()
}

impl Map {
    fn length(&self) -> usize {
        let entries = self.0.iter();
        entries
            .map(|(name, value)| whole(entry_length(name, value)))
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
    whole(name.len()) + whole(value.length())
}

/// It is written, and never read.
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

/// The map that stands in a file. `None` if it is none.
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

/// What an answer tells about itself, as JSON.
pub(super) fn told(metadata: &Map, field: &str) -> Option<serde_json::Value> {
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
