//! Limits of tiers and of single keys.

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
/// A request whose tier is not listed has the tier `default`, or else the limit itself.
///
/// ```
/// use plimsoll_config::uses::{KeyPart, Tier};
/// use plimsoll_config::{Config, Format};
///
/// let text = "limits: { api: { rate: 100/min, key: client, tiers: { by: header:x-plan, pro: 1000/min, internal: unlimited } } }";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let tiers = config.use_of("api").unwrap().tiers.as_ref().unwrap();
/// assert_eq!(tiers.by, KeyPart::Header("x-plan".to_owned()));
/// let internal = tiers.of.iter().find(|(name, _)| *name == "internal").unwrap();
/// assert_eq!(internal.1, &Tier::Unlimited);
/// assert!(tiers.default.is_none());
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
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
///
/// In a file it is `unlimited`, `blocked`, or a limit of the same kind, often in the short form of a rate:
///
/// ```
/// use plimsoll_config::uses::Tier;
/// use plimsoll_config::{Config, Format};
///
/// let text = "limits: { api: { rate: 10/s, key: client, overrides: { a: unlimited, b: blocked, c: 1000/s } } }";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let tiers: Vec<&Tier> = config.use_of("api").unwrap().overrides.iter().map(|(_, tier)| tier).collect();
/// assert!(matches!(tiers[..], [Tier::Unlimited, Tier::Blocked, Tier::Limit(_)]));
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(from = "Either")]
#[non_exhaustive]
pub enum Tier {
    /// `unlimited`: requests are admitted and not counted.
    Unlimited,
    /// `blocked`: all requests are refused.
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
