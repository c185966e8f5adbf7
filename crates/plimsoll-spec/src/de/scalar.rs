//! Single values with a meaning of their own, by the name of the type that holds them.

use std::time::Duration;

use plimsoll_scenario::reader::{Node, Problem, Read, quote, scalar};
use serde::de::value::{F64Deserializer, StringDeserializer, U32Deserializer, U64Deserializer};
use serde::de::{IntoDeserializer, Visitor};

use super::Error;
use crate::spec::Url;

/// How the one value of a type is read.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    Count(fn(&Node) -> Read<u32>),
    Nanos(fn(&Node) -> Read<Duration>),
    Number(fn(&Node) -> Read<f64>),
    Text(fn(&Node) -> Read<String>),
}

/// The reader for the type that serde calls `of`, if it is a single value.
pub(super) fn reader(of: &str) -> Option<Reader> {
    Some(match of {
        "Positive" => Reader::Count(scalar::positive),
        "Span" => Reader::Nanos(scalar::duration),
        "Period" => Reader::Nanos(scalar::period),
        "Rate" => Reader::Number(scalar::rate),
        "Name" => Reader::Text(name),
        "Memory" => Reader::Text(memory),
        "Percent" => Reader::Count(percent),
        "Url" => Reader::Text(url),
        _ => return None,
    })
}

/// A name that can be written in messages and metrics.
fn name(node: &Node) -> Read<String> {
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

/// An address, as far as its beginning shows. What stands in it is not shown if it is none.
fn url(node: &Node) -> Read<String> {
    let address = scalar::text(node)?;
    let known = |scheme: &&str| address.len() > scheme.len() && address.starts_with(*scheme);
    if Url::SCHEMES.iter().any(known) {
        return Ok(address);
    }
    let found = quote(&Url::hidden(&address));
    let message = format!("expected {}, found {found}", Url::WANTED);
    Err(Problem::new(node.place, message))
}

fn percent(node: &Node) -> Read<u32> {
    let number = scalar::text(node)?;
    let number = number.strip_suffix('%').and_then(digits);
    let number = number.and_then(|number| u32::try_from(number).ok());
    number
        .filter(|number| (1..=100).contains(number))
        .ok_or_else(|| scalar::expected("a percentage from 1% to 100%", node))
}

/// A percentage or a number of bytes, as it is written: see [`bytes`].
fn memory(node: &Node) -> Read<String> {
    let wanted = "a percentage such as 80%, or bytes such as 512MiB, 2GiB, 64KiB or 1000000B";
    let amount = scalar::text(node)?;
    let known = match amount.strip_suffix('%') {
        Some(number) => digits(number).is_some_and(|number| number <= 100),
        None => bytes(&amount).is_some(),
    };
    if known {
        return Ok(amount);
    }
    Err(scalar::expected(wanted, node))
}

/// A number of bytes with its unit.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 4] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("B", 1),
    ];
    let (number, size) = UNITS
        .iter()
        .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)))?;
    digits(number)?.checked_mul(*size)
}

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

impl Reader {
    /// Something harmless in the place of a value that cannot be read.
    pub(super) fn make_up<'t, V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        match self {
            Self::Count(_) => {
                let value: U32Deserializer<Error<'t>> = 1_u32.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Nanos(_) => {
                let value: U64Deserializer<Error<'t>> = 1_000_000_000_u64.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Number(_) => {
                let value: F64Deserializer<Error<'t>> = 1.0_f64.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Text(_) => {
                let value: StringDeserializer<Error<'t>> = "x".to_owned().into_deserializer();
                visitor.visit_newtype_struct(value)
            }
        }
    }

    pub(super) fn visit<'t, V: Visitor<'t>>(
        self,
        node: &'t Node,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        match self {
            Self::Count(read) => {
                let value: U32Deserializer<Error<'t>> = read(node)?.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Nanos(read) => {
                let nanos = u64::try_from(read(node)?.as_nanos());
                let nanos = nanos.map_err(|_| Problem::new(node.place, "too long a duration"))?;
                let value: U64Deserializer<Error<'t>> = nanos.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Number(read) => {
                let value: F64Deserializer<Error<'t>> = read(node)?.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
            Self::Text(read) => {
                let value: StringDeserializer<Error<'t>> = read(node)?.into_deserializer();
                visitor.visit_newtype_struct(value)
            }
        }
        .map_err(|error| error.at(node))
    }
}
