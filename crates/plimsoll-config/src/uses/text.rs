//! Values that are written as one text in a file.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use plimsoll_spec::quote;
use plimsoll_spec::scalar::amount;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that is spelled as one text.
pub(crate) trait Spelled: Sized {
    /// `text:` and a valid text, which replaces an invalid one so that further mistakes can be found.
    const HARMLESS: &'static str;
    /// The expected text, for error messages.
    const WANTED: &'static str;

    /// Parses the value. The error is a hint at the probable meaning.
    fn parse(text: &str) -> Result<Self, String>;

    /// The part of an invalid text that a message may show.
    fn shown(text: &str) -> Cow<'_, str> {
        text.into()
    }

    /// The value as a number, if it is written as one.
    fn number(&self) -> Option<u16> {
        None
    }
}

/// Reads a `T` from its text.
pub(crate) fn spelled<'de, T: Spelled, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct Text<T>(PhantomData<T>);

    impl<T: Spelled> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::WANTED)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            T::parse(text).map_err(|hint| {
                let (wanted, found) = (T::WANTED, quote(&T::shown(text)));
                E::custom(format_args!("expected {wanted}, found {found}{hint}"))
            })
        }
    }

    deserializer.deserialize_newtype_struct(T::HARMLESS, Text(PhantomData))
}

/// `Deserialize`, `Serialize` by `Display`, and a schema for types that are spelled.
macro_rules! spelled_as_text {
    ($($type:ty => { $($schema:tt)+ })+) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::uses::spelled(deserializer)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match $crate::uses::Spelled::number(self) {
                    Some(number) => serializer.serialize_u16(number),
                    None => serializer.collect_str(self),
                }
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ $($schema)+ })
            }
        }
    )+};
}
pub(crate) use spelled_as_text;

/// A whole number that may be written `100k`, `2M` or `1G`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Amount(pub(crate) u64);

impl Spelled for Amount {
    const HARMLESS: &'static str = "text:1";
    const WANTED: &'static str = "a whole number such as 100, 100k or 2M";

    fn parse(text: &str) -> Result<Self, String> {
        amount(text).map(Self).ok_or_else(String::new)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        spelled(deserializer)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A whole number; 100k, 2M and 1G are thousands, millions and milliards.",
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+[kMG]?$" }]
        })
    }
}
