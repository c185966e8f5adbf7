//! Other limits for some.

use std::borrow::Cow;
use std::fmt;

use plimsoll_spec::{Limiter, Named};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::key::KeyPart;

/// Other limits by tier. A part of the request names its tier.
///
/// In a file: `tiers: { by: header:x-plan, pro: 1000/min, internal: unlimited }`.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Tiers {
    /// The part of the request that names its tier.
    pub by: KeyPart,
    /// The tiers, by name.
    pub of: Named<Tier>,
    /// The tier `default`, for requests without another tier. Without it, the limit itself applies.
    pub default: Option<Tier>,
}

/// The limit of a tier, or of a key with an override.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(from = "Either")]
#[non_exhaustive]
pub enum Tier {
    /// `unlimited`: nothing is counted.
    Unlimited,
    /// `blocked`: everything is refused.
    Blocked,
    /// A limit of the same kind with other parameters. Queue, keys and store are those of the limit that it belongs to.
    Limit(Box<Limiter>),
}

#[derive(Deserialize)]
#[serde(rename = "either", rename_all = "snake_case")]
enum Either {
    /// Unlimited, or blocked.
    Word(Word),
    /// A limit of the same kind.
    Limit(Box<Limiter>),
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Word {
    /// Nothing is counted.
    Unlimited,
    /// Everything is refused.
    Blocked,
}

impl From<Either> for Tier {
    fn from(either: Either) -> Self {
        match either {
            Either::Word(Word::Unlimited) => Self::Unlimited,
            Either::Word(Word::Blocked) => Self::Blocked,
            Either::Limit(limiter) => Self::Limit(limiter),
        }
    }
}

impl Serialize for Tier {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unlimited => Word::Unlimited.serialize(serializer),
            Self::Blocked => Word::Blocked.serialize(serializer),
            // The rest is that of the limit it belongs to.
            Self::Limit(limiter) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("kind", &limiter.kind)?;
                map.end()
            }
        }
    }
}

impl JsonSchema for Tier {
    fn schema_name() -> Cow<'static, str> {
        "Tier".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (word, limiter) = (
            generator.subschema_for::<Word>(),
            generator.subschema_for::<Limiter>(),
        );
        json_schema!({
            "description": "Another limit of the same kind, `unlimited` or `blocked`.",
            "anyOf": [word, plimsoll_spec::rate_schema(), limiter],
        })
    }
}

/// The part of the request that names its tier.
const BY: &str = "by";
/// The tier of requests without another one.
pub(super) const DEFAULT: &str = "default";

impl<'de> Deserialize<'de> for Tiers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Tiers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "tiers such as { by: header:x-plan, pro: 1000/min, internal: unlimited }",
                )
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tiers, A::Error> {
                let (mut by, mut default, mut of) = (None, None, Named::default());
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        BY => by = Some(map.next_value()?),
                        DEFAULT => default = Some(map.next_value()?),
                        _ => of.push(name, map.next_value()?),
                    }
                }
                let by = by.ok_or_else(|| de::Error::missing_field(BY))?;
                Ok(Tiers { by, of, default })
            }
        }

        deserializer.deserialize_struct("Tiers", &[BY], Entries)
    }
}

impl Serialize for Tiers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(BY, &self.by)?;
        for (name, tier) in self.of.iter() {
            map.serialize_entry(name, tier)?;
        }
        if let Some(default) = &self.default {
            map.serialize_entry(DEFAULT, default)?;
        }
        map.end()
    }
}

impl JsonSchema for Tiers {
    fn schema_name() -> Cow<'static, str> {
        "Tiers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let by = generator.subschema_for::<KeyPart>();
        let tier = generator.subschema_for::<Tier>();
        json_schema!({
            "description": "Other limits, by what a part of the request says. What it says and no tier is called has the limit itself, or the tier `default`.",
            "type": "object",
            "required": [BY],
            "properties": { BY: by },
            "additionalProperties": tier,
        })
    }
}

/// Tiers by the text of a key.
pub(super) fn by_any_text(generator: &mut SchemaGenerator) -> Schema {
    let tier = generator.subschema_for::<Tier>();
    json_schema!({
        "description": "Other limits for single keys, by their text.",
        "type": "object",
        "additionalProperties": tier,
    })
}
