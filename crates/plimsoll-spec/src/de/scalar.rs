//! Readers of single values, by the name of their type in serde.

use std::time::Duration;

use serde::de::{IntoDeserializer, Visitor};

use super::Error;
use crate::problem::{Problem, Read, quote};
use crate::scalar::{self, Units};
use crate::store::Url;
use crate::tree::{Node, Written};
use crate::value::{Memory, Name};

/// The reader of a single value.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    Whole(fn(&Node) -> Read<u64>),
    Nanos(fn(Units, &Node) -> Read<Duration>),
    Number(fn(&Node) -> Read<f64>),
    Text(fn(&Node) -> Read<String>),
    /// The value as it is written in the file.
    Written(fn(&Node) -> Read<String>),
}

/// The reader for the type that serde calls `of`, if it is a single value.
pub(super) fn reader(of: &str) -> Option<Reader> {
    Some(match of {
        "Positive" => Reader::Whole(scalar::positive),
        "Count" => Reader::Whole(|node| scalar::count(node, 1).map(u64::from)),
        "Span" => Reader::Nanos(Units::duration),
        "Period" => Reader::Nanos(Units::period),
        "Number" => Reader::Number(scalar::rate),
        "Signed" => Reader::Number(scalar::signed),
        "Name" => Reader::Text(name),
        "Memory" => Reader::Text(memory),
        "Percent" => Reader::Whole(percent),
        "Url" => Reader::Written(url),
        _ => return None,
    })
}

/// A name that can be written in messages and metrics.
fn name(node: &Node) -> Read<String> {
    let name = scalar::text(node)?;
    if Name::is_valid(&name) {
        return Ok(name);
    }
    Err(scalar::expected(Name::WANTED, node))
}

/// An address, checked by its scheme. Messages do not show an invalid one, because it may contain a password.
fn url(node: &Node) -> Read<String> {
    let address = scalar::text(node)?;
    let known = |scheme: &&str| address.len() > scheme.len() && address.starts_with(*scheme);
    if Url::SCHEMES.iter().any(known) {
        return Ok(address);
    }
    let found = match &node.written {
        Some(written) => quote(&written.to_string()),
        None => quote(&Url::hidden(&address)),
    };
    let message = format!("expected {}, found {found}", Url::WANTED);
    Err(Problem::new(node.place, message))
}

fn percent(node: &Node) -> Read<u64> {
    let number = scalar::text(node)?;
    let number = number.strip_suffix('%').and_then(|it| it.parse().ok());
    number
        .filter(|number| (1..=100).contains(number))
        .ok_or_else(|| scalar::expected("a percentage from 1% to 100%", node))
}

/// A percentage or a number of bytes, as it is written.
fn memory(node: &Node) -> Read<String> {
    let wanted = "a percentage such as 80%, or bytes such as 512MiB, 2GiB, 64KiB or 1000000B";
    let memory = Memory(scalar::text(node)?);
    if memory.percent().is_some() || memory.bytes().is_some() {
        return Ok(memory.0);
    }
    Err(scalar::expected(wanted, node))
}

impl Reader {
    /// Reads `node`, or returns a valid value in place of one that cannot be read.
    pub(super) fn visit<'t, V: Visitor<'t>>(
        self,
        node: Option<&'t Node>,
        units: Units,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        /// Makes `visitor` read the single value of its type.
        fn one<'t, V: Visitor<'t>>(
            value: impl IntoDeserializer<'t, Error<'t>>,
            visitor: V,
        ) -> Result<V::Value, Error<'t>> {
            visitor.visit_newtype_struct(value.into_deserializer())
        }

        let read = match self {
            Self::Whole(read) => one(node.map_or(Ok(1), read)?, visitor),
            Self::Nanos(read) => {
                let second = Ok(Duration::from_secs(1));
                let nanos = node.map_or(second, |node| read(units, node))?.as_nanos();
                one(u64::try_from(nanos).unwrap_or(u64::MAX), visitor)
            }
            Self::Number(read) => one(node.map_or(Ok(1.0), read)?, visitor),
            Self::Written(read) => {
                let address = node.map_or(Ok("redis://h".to_owned()), read)?;
                let (how, text) = match node.and_then(|node| node.written.as_deref()) {
                    Some(Written::Text(text)) => ("text", text.as_str()),
                    Some(Written::Env(name)) => ("env", name.as_str()),
                    Some(Written::File(path)) => ("file", path.as_str()),
                    None => ("", ""),
                };
                one(vec![address, how.to_owned(), text.to_owned()], visitor)
            }
            Self::Text(read) => one(node.map_or(Ok("x".to_owned()), read)?, visitor),
        };
        match node {
            Some(node) => read.map_err(|error| error.at(node)),
            None => read,
        }
    }
}
