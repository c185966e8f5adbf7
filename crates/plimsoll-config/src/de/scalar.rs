//! Single values with a meaning of their own, by the name of the type that holds them.

use std::time::Duration;

use plimsoll_scenario::reader::{Node, Problem, Read, scalar};
use serde::de::value::{F64Deserializer, StringDeserializer, U32Deserializer, U64Deserializer};
use serde::de::{IntoDeserializer, Visitor};

use super::Error;

/// How the one value of a type is read.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    Count(fn(&Node) -> Read<u32>),
    Nanos(fn(&Node) -> Read<Duration>),
    Number(fn(&Node) -> Read<f64>),
    Text(fn(&Node) -> Read<String>),
}

/// The reader for the type that serde calls `name`, if it is a single value.
pub(super) fn reader(name: &str) -> Option<Reader> {
    Some(match name {
        "Positive" => Reader::Count(scalar::positive),
        "Span" => Reader::Nanos(scalar::duration),
        "Period" => Reader::Nanos(scalar::period),
        "Rate" => Reader::Number(scalar::rate),
        "Name" => Reader::Text(word),
        _ => return None,
    })
}

/// A name that can be written in messages and metrics.
fn word(node: &Node) -> Read<String> {
    let name = scalar::text(node)?;
    if is_name(&name) {
        return Ok(name);
    }
    Err(scalar::expected(
        "a name of at most 64 letters, digits, `_`, `-` and `.`",
        node,
    ))
}

/// Whether `text` can be a name.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(plain)
}

impl Reader {
    pub(super) fn visit<'t, V: Visitor<'t>>(
        self,
        node: &Node,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Self::Count(read) => {
                let value: U32Deserializer<Error> = read(node)?.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Nanos(read) => {
                let nanos = u64::try_from(read(node)?.as_nanos());
                let nanos = nanos.map_err(|_| Problem::new(node.place, "too long a duration"))?;
                let value: U64Deserializer<Error> = nanos.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Number(read) => {
                let value: F64Deserializer<Error> = read(node)?.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Text(read) => {
                let value: StringDeserializer<Error> = read(node)?.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
        }
        .map_err(|error| error.at(node))
    }
}
